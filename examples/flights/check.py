"""The conservation check: every record of ``flights`` is accounted for, by the topics alone.

Three accounts must agree: what the CSV files say (:mod:`examples.flights.truth`), what the journal says, and what
really is in the topics. All are read as committed, when everything is at rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from examples.flights.books import Books, Faults
from examples.flights.check_copies import check_dead_letters, check_releases, waits
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger, Place
from examples.flights.topics import read_all, read_as_group
from examples.flights.truth import Ending
from examples.flights.wire import FLIGHTS, SEAT_MILES, seat_miles_of
from serdes.errors import DecodeError
from topology.lineage import parse_message_id
from transport.protocols import Message


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found."""

    records_in: int
    """How many records another consumer group sees in ``flights``."""

    pending: int
    """How many of them have not ended."""

    outputs: Counter[str]
    """Records of ``seat_miles``, by how the flight's record ended in the journal."""

    seat_miles: int
    """The sum of all."""

    dead_letters: Counter[str]
    """By reason."""

    early: int
    """Releases before the due time, by the timestamps of the records themselves."""

    faults: Faults


def check(servers: str, layout: Layout, books: Books, ledger: Ledger) -> Findings:
    """Read everything and compare.

    Raises:
        KafkaSilentError: a topic could not be read to its end.
    """
    books.enter(read_as_group(servers, FLIGHTS, "flights-auditor"))
    check_journal(books, ledger, layout.redeliveries)
    outputs, seat_miles = check_outputs(books, ledger, read_all(servers, [SEAT_MILES]))
    dead_letters = check_dead_letters(books, ledger, layout, read_all(servers, [layout.dead_letters]))
    waited = waits(books, layout, read_all(servers, layout.tiers))
    early = check_releases(books, ledger, waited, read_all(servers, [layout.ready]))
    return Findings(
        records_in=len(books.at),
        pending=sum(place not in ledger.ended for place in books.at),
        outputs=outputs,
        seat_miles=seat_miles,
        dead_letters=dead_letters,
        early=early,
        faults=books.faults,
    )


def check_journal(books: Books, ledger: Ledger, redeliveries: int) -> None:
    """Each record ended once, as it must, after as many redeliveries as it must have."""
    for place, again in ledger.ended_again:
        books.fault(place, f"ended twice, the second time as {again}")
    for unknown in ledger.ended.keys() - books.at.keys():
        books.fault(unknown, f"ended as {ledger.ended[unknown]}")
    for place, number in books.at.items():
        must, outcome = books.expected[number], ledger.ended.get(place)
        if outcome is None:
            books.fault(place, f"has not ended, it should be {must.ending}")
            continue
        if outcome != ("dead_lettered" if must.ending.dead else must.ending):
            books.fault(place, f"is {outcome}, it should be {must.ending}")
        retried = ledger.retried[place]
        if must.ending is Ending.RECOVERED:
            right = 1 <= retried <= redeliveries
        else:
            right = retried == (redeliveries if must.ending is Ending.REDELIVERIES_EXCEEDED else 0)
        if not right:
            books.fault(place, f"was redelivered {retried} times and is {outcome}")


def check_outputs(books: Books, ledger: Ledger, messages: Iterable[Message]) -> tuple[Counter[str], int]:
    """Exactly the flights that must have seat-miles have them, once, and the right ones.

    Returns:
        how many there are, by how the flight's record ended, and the sum of their seat-miles.
    """
    found: Counter[str] = Counter()
    total = 0
    seen: set[Place] = set()
    for message in messages:
        try:
            value = seat_miles_of(message.value())
            _, partition, offset = parse_message_id(value["message_id"])
        except (DecodeError, ValueError) as error:
            books.faults.add(f"{SEAT_MILES}-{message.partition()}@{message.offset()} is no record of ours: {error}")
            continue
        place = (partition, offset)
        if place in seen:
            books.fault(place, "its seat-miles are there twice")
            continue
        seen.add(place)
        if _right_output(books, place, message.key(), value):
            found[ledger.ended.get(place, "pending")] += 1
            total += value["seat_miles"]
    for place, number in books.at.items():
        if books.expected[number].seat_miles is not None and place not in seen:
            books.fault(place, "its seat-miles are missing")
    return found, total


def _right_output(books: Books, place: Place, key: bytes | None, value: Mapping[str, object]) -> bool:
    """Note whatever is wrong with the seat-miles of a flight; tells whether nothing is."""
    flight, must = books.flight(place), books.expectation(place)
    if flight is None or must is None or must.seat_miles is None:
        books.fault(place, "has seat-miles, it should have none")
        return False
    right = {name: getattr(flight, name) for name in _REPEATED} | {"seat_miles": must.seat_miles}
    wrong = {name: value[name] for name in right if value[name] != right[name]}
    if wrong:
        books.fault(place, f"its seat-miles say {wrong} instead of { {name: right[name] for name in wrong} }")
    if key != str(flight.tailnum).encode():
        books.fault(place, f"its seat-miles have the key {key!r}")
    return not wrong


_REPEATED = ("year", "month", "day", "carrier", "flight", "origin", "dest", "tailnum", "distance")
"""What an output repeats of its flight."""
