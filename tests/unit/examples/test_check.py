"""The check finds missing, duplicated and wrong records in every topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from examples.flights.accounting import Accounting
from examples.flights.broken import record_of
from examples.flights.check import check_journal, check_outputs
from examples.flights.check_copies import check_dead_letters, check_releases, waits
from examples.flights.data import Flight
from examples.flights.ledger import Ledger
from examples.flights.redrive import check_job
from examples.flights.scenario import Broken, Scenario
from examples.flights.wire import SEAT_MILES_CODEC
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import (
    HeaderList,
    dead_letter_headers,
    ready_headers,
    redriven_headers,
    retry_headers,
)
from tests.unit.consumers.records import BORN, NOW, Fetched
from tests.unit.examples.flights import LAYOUT, flight, world

_FLIGHTS = (
    flight(0, "N1"),  # acknowledged
    flight(1, "N2"),  # recovered after one redelivery
    flight(2, "N404"),  # dead after two
    flight(3, None, dep_time=None),  # rejected
    flight(4, "N1", dep_time=None),  # cancelled
)
_GIVEN: Scenario = replace(world(late={"N2": 1}), records=(*_FLIGHTS, Broken(1, _FLIGHTS[0])))
_REDRIVEN: Scenario = replace(_GIVEN, records=(flight(0, "N3"), flight(1, "N404")), missing=frozenset({"N3"}))
_MARK = "3f9a2c01bd/0@{}/1"


@dataclass(slots=True)
class Topics:
    """Content of the topics, which tests corrupt."""

    journal: list[dict[str, list[list[int]]]] = field(default_factory=list)
    source: list[Fetched] = field(default_factory=list)
    outputs: list[Fetched] = field(default_factory=list)
    dead: list[Fetched] = field(default_factory=list)
    tiers: list[Fetched] = field(default_factory=list)
    ready: list[Fetched] = field(default_factory=list)


def _good() -> Topics:
    """A correct run. Record n of the scenario is flights-0@n."""
    topics = Topics()
    for offset, record in enumerate(_GIVEN.records):
        topics.source.append(Fetched("flights", 0, offset, *record_of(record)))
    topics.journal = [{"acked": [[0, 0], [4, 4]], "retried": [[1, 2]], "dead_lettered": [[3, 3], [5, 5]]}]
    topics.journal += [{"recovered": [[1, 1]], "retried": [[2, 2]]}, {"dead_lettered": [[2, 2]]}]
    topics.outputs = [_output(0, 101), _output(1, 102)]
    topics.dead = [_dead(3, 1, Reason.REJECTED), _dead(5, 0, Reason.UNDECODABLE)]
    topics.dead.append(_dead(2, 3, Reason.REDELIVERIES_EXCEEDED))
    for offset, deliveries in ((1, 1), (2, 1), (2, 2)):
        waiting = retry_headers(_lineage(offset, deliveries), "g", [], Retry(1000, NOW))
        topics.tiers.append(_copy(LAYOUT.tiers[deliveries - 1], offset, waiting))
        topics.ready.append(_copy(LAYOUT.ready, offset, ready_headers(waiting)))
    return topics


def _good_again() -> Topics:
    """Both flights died and were sent again: the plane of one is known by then, the other dies again."""
    topics = Topics()
    for offset, record in enumerate(_REDRIVEN.records):
        topics.source.append(Fetched("flights", 0, offset, *record_of(record)))
    for offset, redrive in ((0, ""), (1, ""), (1, _MARK.format(1))):
        topics.dead.append(_dead(offset, 3, Reason.REDELIVERIES_EXCEEDED, given=_REDRIVEN, redrive=redrive))
        for deliveries in (1, 2):
            lineage = _lineage(offset, deliveries, redrive)
            waiting = retry_headers(lineage, "g", [], Retry(1000, NOW))
            topics.tiers.append(_copy(LAYOUT.tiers[deliveries - 1], offset, waiting, _REDRIVEN))
            topics.ready.append(_copy(LAYOUT.ready, offset, ready_headers(waiting), _REDRIVEN))
    for offset in (0, 1):
        headers = redriven_headers([], _lineage(offset, 0, _MARK.format(offset)), "g")
        topics.ready.append(_copy(LAYOUT.ready, offset, headers, _REDRIVEN))
    topics.journal = [{"retried": [[0, 1]]}, {"retried": [[0, 1]]}, {"dead_lettered": [[0, 1]]}]
    topics.journal += [{"recovered": [[0, 0]], "retried": [[1, 1]]}, {"retried": [[1, 1]]}, {"dead_lettered": [[1, 1]]}]
    topics.outputs = [_output(0, 103, given=_REDRIVEN)]
    return topics


def _lineage(offset: int, deliveries: int, redrive: str = "") -> Lineage:
    return Lineage("flights", 0, offset, BORN, deliveries, redrive=redrive)


def _copy(topic: str, offset: int, headers: HeaderList, given: Scenario = _GIVEN) -> Fetched:
    return Fetched(topic, 0, 0, *record_of(given.records[offset]), headers, NOW)


def _output(offset: int, seats: int, *, given: Scenario = _GIVEN, **instead: object) -> Fetched:
    it = given.records[offset]
    assert isinstance(it, Flight)
    value = {name: getattr(it, name) for name in ("year", "month", "day", "carrier", "flight", "origin", "dest")}
    value |= {"message_id": f"flights-0@{offset}", "tailnum": it.tailnum, "seats": seats, "distance": it.distance}
    value |= {"seat_miles": seats * it.distance} | instead
    return Fetched("seat_miles", 0, offset, str(it.tailnum).encode(), SEAT_MILES_CODEC.encode(value))


def _dead(
    offset: int, deliveries: int, reason: Reason, *, group: str = "g", given: Scenario = _GIVEN, redrive: str = ""
) -> Fetched:
    decision = DeadLetter(reason, Failure(FailureKind.REJECTED, "Reject", ""))
    headers = dead_letter_headers(_lineage(offset, deliveries, redrive), group, [], decision, NOW)
    return _copy("DLQ.flights", offset, headers, given)


def _faults(topics: Topics, given: Scenario = _GIVEN) -> list[str]:
    accounting = Accounting(given, [record_of(record) for record in given.records])
    ledger = Ledger()
    for entry in topics.journal:
        ledger.take([Fetched("g.journal", 0, 0, None, json.dumps({"partition": 0} | entry).encode())])
    accounting.locate(topics.source)
    check_journal(accounting, ledger, LAYOUT.redeliveries)
    check_outputs(accounting, ledger, topics.outputs)
    check_dead_letters(accounting, ledger, LAYOUT, topics.dead)
    check_releases(accounting, ledger, waits(accounting, LAYOUT, topics.tiers), topics.ready)
    return accounting.faults.first


def test_a_correct_run_has_no_fault() -> None:
    """Six records with different outcomes are accounted for."""
    assert _faults(_good()) == []


_CORRUPTIONS: dict[str, tuple[Callable[[Topics], object], str]] = {
    "lost in the source": (lambda it: it.source.pop(0), "UA 0 from EWR on 2013-01-01 is not in flights"),
    "unknown in the source": (
        lambda it: it.source.append(Fetched("flights", 0, 9, b"N1", b"foreign")),
        "flights-0@9 was not sent",
    ),
    "duplicate in the source": (
        lambda it: it.source.append(replace(it.source[0], place=9)),
        "flights-0@9 was not sent",
    ),
    "not ended": (lambda it: it.journal.pop(), "has no outcome"),
    "ended twice": (lambda it: it.journal.append({"acked": [[0, 0]]}), "ended twice"),
    "ended, never there": (lambda it: it.journal.append({"acked": [[77, 77]]}), "flights-0@77"),
    "ended otherwise": (
        lambda it: it.journal.__setitem__(2, {"recovered": [[2, 2]]}),
        "is recovered, expected redeliveries_exceeded",
    ),
    "too many redeliveries": (lambda it: it.journal.append({"retried": [[0, 0]]}), "was redelivered 1 times"),
    "output missing": (lambda it: it.outputs.pop(), "its seat-miles are missing"),
    "duplicate output": (lambda it: it.outputs.append(it.outputs[0]), "has its seat-miles twice"),
    "unexpected output": (lambda it: it.outputs.append(_output(2, 1)), "has seat-miles, expected none"),
    "output of a wrong number": (
        lambda it: it.outputs.__setitem__(0, _output(0, 101, seat_miles=1)),
        "{'seat_miles': 1}",
    ),
    "output of another flight": (lambda it: it.outputs.__setitem__(0, _output(0, 101, day=2)), "{'day': 2}"),
    "output with another key": (
        lambda it: it.outputs.__setitem__(0, replace(it.outputs[0], key_bytes=b"N9")),
        "the key b'N9'",
    ),
    "output of rubbish": (
        lambda it: it.outputs.append(Fetched("seat_miles", 0, 9, None, b"rubbish")),
        "seat_miles-0@9 is not an output of the demo",
    ),
    "dead letter missing": (lambda it: it.dead.pop(), "its dead letter is missing"),
    "duplicate dead letter": (lambda it: it.dead.append(it.dead[0]), "is dead-lettered twice"),
    "dead letter of an acknowledged record": (
        lambda it: it.dead.append(_dead(0, 1, Reason.REJECTED)),
        "is dead-lettered as rejected",
    ),
    "dead for another reason": (
        lambda it: it.dead.__setitem__(0, _dead(3, 1, Reason.EXPIRED)),
        "is dead-lettered as expired",
    ),
    "dead letter changed": (
        lambda it: it.dead.__setitem__(1, replace(it.dead[1], value_bytes=b"changed")),
        "its dead letter has other bytes than the record",
    ),
    "dead too soon": (
        lambda it: it.dead.__setitem__(2, _dead(2, 2, Reason.REDELIVERIES_EXCEEDED)),
        "2 deliveries instead of 3",
    ),
    "dead letter of another group": (
        lambda it: it.dead.__setitem__(0, _dead(3, 1, Reason.REJECTED, group="other")),
        "comes from the group b'other'",
    ),
    "dead letter elsewhere": (lambda it: it.dead.__setitem__(0, replace(it.dead[0], number=1)), "is in partition 1"),
    "dead letter without headers": (lambda it: it.dead.append(Fetched("DLQ.flights", 0, 9)), "DLQ.flights-0@9"),
    "waits for ever": (lambda it: it.ready.pop(), "still waits after delivery 2"),
    "released twice": (lambda it: it.ready.append(it.ready[0]), "without waiting, or twice"),
    "released early": (
        lambda it: it.ready.__setitem__(0, replace(it.ready[0], stamp_ms=NOW - 5)),
        "was released 5 ms early",
    ),
    "waited in the wrong tier": (
        lambda it: it.tiers.__setitem__(0, replace(it.tiers[0], source=LAYOUT.tiers[1])),
        "waited in g.retry.2s after delivery 1",
    ),
    "waited twice": (lambda it: it.tiers.append(it.tiers[0]), "waited twice after delivery 1"),
    "not in the journal": (lambda it: it.journal[1].pop("retried"), "the journal has 1"),
}


@pytest.mark.parametrize("name", _CORRUPTIONS)
def test_each_corruption_is_found_and_named(name: str) -> None:
    """Each way to lose, duplicate or change a record produces a fault that names it."""
    corrupt, text = _CORRUPTIONS[name]
    topics = _good()
    corrupt(topics)
    assert any(text in fault for fault in _faults(topics)), _faults(topics)


def test_dead_letters_that_were_sent_again_are_accounted_for() -> None:
    """A record may end a second time, if its dead letter was sent again."""
    assert _faults(_good_again(), _REDRIVEN) == []


_CORRUPTIONS_AGAIN: dict[str, tuple[Callable[[Topics], object], str]] = {
    "not sent again": (lambda it: it.ready.pop(), "was sent again 0 times"),
    "sent twice": (lambda it: it.ready.append(it.ready[-1]), "was sent again 2 times"),
    "still pending": (lambda it: it.journal[3].pop("recovered"), "was sent again and is pending, expected recovered"),
    "ended otherwise": (
        lambda it: it.journal.__setitem__(5, {"recovered": [[1, 1]]}),
        "is ['recovered'], expected redeliveries_exceeded",
    ),
    "ended a third time": (lambda it: it.journal.append({"dead_lettered": [[1, 1]]}), "'dead_lettered', 'dead_letter"),
    "second dead letter missing": (lambda it: it.dead.pop(), "its dead letter is missing"),
    "second dead letter twice": (lambda it: it.dead.append(it.dead[-1]), "is dead-lettered twice"),
    "died although its plane is known": (
        lambda it: it.dead.append(
            _dead(0, 3, Reason.REDELIVERIES_EXCEEDED, given=_REDRIVEN, redrive=_MARK.format(0)),
        ),
        "is dead-lettered as redeliveries_exceeded",
    ),
    "sent again after it was sent again": (
        lambda it: it.dead.append(_dead(1, 3, Reason.REDELIVERIES_EXCEEDED, given=_REDRIVEN, redrive="j/0@1/2")),
        "is dead-lettered as redeliveries_exceeded",
    ),
    "too few redeliveries": (lambda it: it.journal.pop(4), "was redelivered 3 times"),
    "output of both attempts": (lambda it: it.outputs.append(it.outputs[0]), "has its seat-miles twice"),
}


@pytest.mark.parametrize("name", _CORRUPTIONS_AGAIN)
def test_each_corruption_after_a_redrive_is_found(name: str) -> None:
    """Each way to send a dead letter not exactly once, or to lose what became of it, produces a fault."""
    corrupt, text = _CORRUPTIONS_AGAIN[name]
    topics = _good_again()
    corrupt(topics)
    assert any(text in fault for fault in _faults(topics, _REDRIVEN)), _faults(topics, _REDRIVEN)


@pytest.mark.parametrize("name", [None, "sent", "recovered", "deadAgain", "unknown", "gone"])
def test_the_story_of_the_job_is_checked(name: str | None) -> None:
    """The job must tell of each letter what the data says."""
    accounting = Accounting(_REDRIVEN, [])
    told = dict.fromkeys(("letters", "sent", "recovered", "deadAgain", "unknown", "parked", "refused", "gone"), 0)
    told |= {"letters": 2, "sent": 2, "recovered": 1, "deadAgain": 1}
    if name is not None:
        told[name] += 1
    check_job(accounting, told)
    assert [fault.split()[4] for fault in accounting.faults.first] == ([] if name is None else [name])


def _overtaken(*offsets: int) -> Accounting:
    accounting = Accounting(_GIVEN, [], blocking=True)
    accounting.check_order(((0, offset), b"N1" if offset % 2 else b"N2") for offset in offsets)
    return accounting


def test_the_order_of_each_plane_is_checked() -> None:
    """Flights of other planes may come first, if flights that failed keep their places."""
    assert not _overtaken(0, 2, 1, 4, 3, 5).overtaken
    wrong = _overtaken(2, 0, 1)
    assert wrong.overtaken == 1
    assert "comes behind a later record of its key" in wrong.faults.first[0]
