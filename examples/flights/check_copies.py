"""The part of the check that reads the records written by the group: dead letters, retry and ready records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from json import loads

from examples.flights.accounting import Accounting
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger, Position
from examples.flights.truth import Ending, Expected
from examples.flights.wire import FLIGHTS
from kafka_redelivery.topology.errors import HeaderError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE, ORIG_QUEUE, parse_mark, read_due, read_lineage
from kafka_redelivery.transport.protocols import Message

Wait = tuple[Position, int, int]
"""Position of a record, how often it was sent again before, and its number of deliveries before it waited."""


def check_dead_letters(
    accounting: Accounting, ledger: Ledger, layout: Layout, messages: Iterable[Message]
) -> tuple[Counter[str], int]:
    """Verify that exactly the expected records are dead-lettered, once, with their bytes, reason and lineage.

    A record that is sent again may be dead-lettered a second time.

    Returns:
        the number of dead letters by reason, and of records that were sent again.
    """
    found: Counter[str] = Counter()
    seen: dict[tuple[Position, int], bytes | None] = {}
    for message in messages:
        lineage = _lineage(accounting, message)
        if lineage is None:
            continue
        position, sends = (lineage.partition, lineage.offset), _sends(lineage)
        if (position, sends) in seen:
            accounting.fault(position, "is dead-lettered twice")
            continue
        seen[position, sends] = message.key()
        reason = str(loads(dict(message.headers() or ()).get(FAILURE_CAUSE) or b"{}").get("reason"))
        found[reason] += not sends
        _check_dead_letter(accounting, layout, message, lineage, reason)
    accounting.check_order((position, key) for (position, _), key in seen.items())
    for position, outcome in ledger.ended.items():
        for sends, each in enumerate([outcome, *ledger.ended_again.get(position, ())]):
            if each == "dead_lettered" and (position, sends) not in seen:
                accounting.fault(position, "its dead letter is missing")
    return found, sum(sends > 0 for _, sends in seen)


def _check_dead_letter(accounting: Accounting, layout: Layout, message: Message, lineage: Lineage, reason: str) -> None:
    position = (lineage.partition, lineage.offset)
    number = accounting.at.get(position)
    if number is None or _ending(accounting.expected[number], _sends(lineage)) != reason:
        accounting.fault(position, f"is dead-lettered as {reason}")
        return
    if accounting.sent[number] != (message.key(), message.value()):
        accounting.fault(position, "its dead letter has other bytes than the record")
    deliveries = {Ending.UNDECODABLE: 0, Ending.REJECTED: 1}.get(Ending(reason), layout.redeliveries + 1)
    if lineage.deliveries != deliveries:
        accounting.fault(position, f"its dead letter has {lineage.deliveries} deliveries instead of {deliveries}")
    group = dict(message.headers() or ()).get(ORIG_QUEUE)
    if group != layout.group.encode():
        accounting.fault(position, f"its dead letter comes from the group {group!r}")
    if message.partition() != lineage.partition:
        accounting.fault(position, f"its dead letter is in partition {message.partition()}")


def waits(accounting: Accounting, layout: Layout, messages: Iterable[Message]) -> dict[Wait, int]:
    """Every wait in a tier -> its due time (epoch ms). Verifies that each is in the right tier, once."""
    found: dict[Wait, int] = {}
    for message in messages:
        lineage = _lineage(accounting, message)
        if lineage is None:
            continue
        position, sends = (lineage.partition, lineage.offset), _sends(lineage)
        if not 1 <= lineage.deliveries <= layout.redeliveries:
            accounting.fault(position, f"waited in {message.topic()} after {lineage.deliveries} deliveries")
        elif layout.tiers[lineage.deliveries - 1] != message.topic():
            accounting.fault(position, f"waited in {message.topic()} after delivery {lineage.deliveries}")
        elif (position, sends, lineage.deliveries) in found:
            accounting.fault(position, f"waited twice after delivery {lineage.deliveries}")
        else:
            found[position, sends, lineage.deliveries] = read_due(message.headers() or ()) or 0
    return found


def check_releases(
    accounting: Accounting, ledger: Ledger, waited: dict[Wait, int], messages: Iterable[Message]
) -> tuple[int, int]:
    """Verify the ready topic: each retry record is there once, not before it was due, as the journal says.

    Each dead letter that is sent again is there once, too.

    Returns:
        the number of early releases, and of dead letters that were sent again.
    """
    early = 0
    left = dict(waited)
    sent: Counter[Position] = Counter()
    for message in messages:
        lineage = _lineage(accounting, message)
        if lineage is None:
            continue
        position, sends = (lineage.partition, lineage.offset), _sends(lineage)
        if sends and not lineage.deliveries:  # a dead letter; a record that waited has been delivered
            sent[position] += 1
            continue
        due_ms = left.pop((position, sends, lineage.deliveries), None)
        if due_ms is None:
            accounting.fault(position, f"was released after delivery {lineage.deliveries} without waiting, or twice")
        elif message.timestamp()[1] < due_ms:
            early += 1
            accounting.fault(position, f"was released {due_ms - message.timestamp()[1]} ms early")
    for position, _, delivery in left:
        accounting.fault(position, f"still waits after delivery {delivery}")
    _check_sent(accounting, sent)
    if accounting.blocking:
        return early, sent.total()  # they have waited in their places, of which the journal alone says how often
    times = Counter(position for position, *_ in waited)
    for position in times.keys() | ledger.retried.keys():
        if times[position] != ledger.retried[position]:
            accounting.fault(position, f"waited {times[position]} times, the journal has {ledger.retried[position]}")
    return early, sent.total()


def _check_sent(accounting: Accounting, sent: Counter[Position]) -> None:
    """Verify that exactly the expected dead letters were sent again, once."""
    for position, number in accounting.at.items():
        if sent[position] != (accounting.expected[number].again is not None):
            accounting.fault(position, f"its dead letter was sent again {sent[position]} times")


def _sends(lineage: Lineage) -> int:
    """How often the record was sent again from a dead-letter topic."""
    mark = parse_mark(lineage.redrive)
    return 0 if mark is None else mark.number


def _ending(expectation: Expected, sends: int) -> Ending | None:
    """The expected outcome of a record that was sent again so often."""
    return (expectation.ending, expectation.again)[sends] if sends <= 1 else None


def _lineage(accounting: Accounting, message: Message) -> Lineage | None:
    """The lineage of a written record. ``None``, and a fault, if it has none or names another topic."""
    try:
        lineage = read_lineage(message.headers() or ())
    except HeaderError as error:
        accounting.faults.add(f"{message.topic()}-{message.partition()}@{message.offset()}: {error}")
        return None
    if lineage.address != FLIGHTS:
        accounting.faults.add(
            f"{message.topic()}-{message.partition()}@{message.offset()} comes from {lineage.address}"
        )
        return None
    return lineage
