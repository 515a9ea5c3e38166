"""The conservation check: every record of ``flights`` is accounted for, from the topics alone.

Three sources must agree: the CSV files (:mod:`examples.flights.truth`), the journal, and the topics. Topics are read
with ``read_committed`` after all processes have stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from examples.flights.accounting import Accounting, Faults
from examples.flights.check_copies import check_dead_letters, check_releases, waits
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger, Position
from examples.flights.topics import read_all, read_as_group
from examples.flights.truth import Ending, Expected
from examples.flights.wire import FLIGHTS, SEAT_MILES, seat_miles_of
from kafka_redelivery.serdes.errors import DecodeError
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.transport.protocols import Message


@dataclass(frozen=True, slots=True)
class Findings:
    """Result of the check."""

    records_in: int
    """Records that another consumer group sees in ``flights``."""

    pending: int
    """Records that have no outcome."""

    outputs: Counter[str]
    """Records of ``seat_miles``, by the outcome of the flight in the journal."""

    seat_miles: int
    """Sum of all seat-miles."""

    dead_letters: Counter[str]
    """By reason, of records that were not sent again before."""

    dead_again: int
    """Dead letters of records that were sent again before."""

    sent_again: int
    """Dead letters that were sent again."""

    early: int
    """Releases before the due time, by the timestamps of the released records."""

    faults: Faults
    overtaken: int = 0
    """Outputs and dead letters that come behind those of a later flight of their plane, where none may."""


def check(servers: str, layout: Layout, accounting: Accounting, ledger: Ledger) -> Findings:
    """Read everything and compare.

    Raises:
        KafkaAccessError: a topic could not be read to its end.
    """
    accounting.locate(read_as_group(servers, FLIGHTS, "flights-auditor"))
    check_journal(accounting, ledger, layout.redeliveries)
    outputs, seat_miles = check_outputs(accounting, ledger, read_all(servers, [SEAT_MILES]))
    dead_letters, dead_again = check_dead_letters(accounting, ledger, layout, read_all(servers, [layout.dead_letters]))
    waited = waits(accounting, layout, read_all(servers, layout.tiers))
    for position, *_ in waited if layout.blocking else ():
        accounting.fault(position, "waited in a tier, and not in its place")
    early, sent_again = check_releases(accounting, ledger, waited, read_all(servers, [layout.ready]))
    return Findings(
        records_in=len(accounting.at),
        pending=sum(position not in ledger.ended for position in accounting.at),
        outputs=outputs,
        seat_miles=seat_miles,
        dead_letters=dead_letters,
        dead_again=dead_again,
        sent_again=sent_again,
        early=early,
        faults=accounting.faults,
        overtaken=accounting.overtaken,
    )


def check_journal(accounting: Accounting, ledger: Ledger, redeliveries: int) -> None:
    """Verify that each record ended once, or twice if it was sent again, as expected and as often redelivered."""
    for unknown in ledger.ended.keys() - accounting.at.keys():
        accounting.fault(unknown, f"ended as {ledger.ended[unknown]}")
    for position, number in accounting.at.items():
        expectation, outcome = accounting.expected[number], ledger.ended.get(position)
        if outcome is None:
            accounting.fault(position, f"has no outcome, expected {expectation.ending}")
            continue
        if outcome != expectation.ending.journalled:
            accounting.fault(position, f"is {outcome}, expected {expectation.ending}")
        again = ledger.ended_again.get(position, [])
        if again and expectation.again is None:
            accounting.fault(position, f"ended twice, the second time as {again[0]}")
        elif expectation.again is not None and again != [expectation.again.journalled]:
            accounting.fault(position, f"was sent again and is {again or 'pending'}, expected {expectation.again}")
        if (retried := ledger.retried[position]) not in _redeliveries(expectation, redeliveries):
            accounting.fault(position, f"was redelivered {retried} times and is {outcome}")


def _redeliveries(expectation: Expected, limit: int) -> range:
    """How often a record may be redelivered, after it was sent again, too."""
    endings = [expectation.ending, expectation.again]
    all_of_them = limit * endings.count(Ending.REDELIVERIES_EXCEEDED)
    # A plane reaches the worker before or after the first flight that needs it and is sent again, but not much later.
    least = all_of_them + (expectation.ending is Ending.RECOVERED)
    return range(least, all_of_them + limit * endings.count(Ending.RECOVERED) + 1)


def check_outputs(accounting: Accounting, ledger: Ledger, messages: Iterable[Message]) -> tuple[Counter[str], int]:
    """Verify that exactly the expected flights have seat-miles, once, with the right value.

    Returns:
        the number of outputs by outcome of the flight, and the sum of their seat-miles.
    """
    found: Counter[str] = Counter()
    total = 0
    seen: dict[Position, bytes | None] = {}
    for message in messages:
        try:
            value = seat_miles_of(message.value())
            _, partition, offset = parse_message_id(value["message_id"])
        except (DecodeError, ValueError) as error:
            accounting.faults.add(
                f"{SEAT_MILES}-{message.partition()}@{message.offset()} is not an output of the demo: {error}"
            )
            continue
        position = (partition, offset)
        if position in seen:
            accounting.fault(position, "has its seat-miles twice")
            continue
        seen[position] = message.key()
        if _right_output(accounting, position, message.key(), value):
            found[ledger.ended.get(position, "pending")] += 1
            total += value["seat_miles"]
    accounting.check_order(seen.items())
    for position, number in accounting.at.items():
        if accounting.expected[number].seat_miles is not None and position not in seen:
            accounting.fault(position, "its seat-miles are missing")
    return found, total


def _right_output(accounting: Accounting, position: Position, key: bytes | None, value: Mapping[str, object]) -> bool:
    """Whether the seat-miles of a flight are right; adds a fault otherwise."""
    flight, expectation = accounting.flight(position), accounting.expectation(position)
    if flight is None or expectation is None or expectation.seat_miles is None:
        accounting.fault(position, "has seat-miles, expected none")
        return False
    right = {name: getattr(flight, name) for name in _REPEATED} | {"seat_miles": expectation.seat_miles}
    wrong = {name: value[name] for name in right if value[name] != right[name]}
    if wrong:
        accounting.fault(position, f"its seat-miles have {wrong} instead of { {name: right[name] for name in wrong} }")
    if key != str(flight.tailnum).encode():
        accounting.fault(position, f"its seat-miles have the key {key!r}")
    return not wrong


_REPEATED = ("year", "month", "day", "carrier", "flight", "origin", "dest", "tailnum", "distance")
"""Fields that an output copies from its flight."""
