"""The part of the check that reads the records written by the group: dead letters, retry and ready records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from json import loads

from examples.flights.accounting import Accounting
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger, Position
from examples.flights.truth import Ending
from examples.flights.wire import FLIGHTS
from kafka_redelivery.topology.errors import HeaderError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE, ORIG_QUEUE, read_due, read_lineage
from kafka_redelivery.transport.protocols import Message

Wait = tuple[Position, int]
"""Position of a record, and its number of deliveries before it waited."""


def check_dead_letters(
    accounting: Accounting, ledger: Ledger, layout: Layout, messages: Iterable[Message]
) -> Counter[str]:
    """Verify that exactly the expected records are dead-lettered, once, with their bytes, reason and lineage.

    Returns:
        the number of dead letters by reason.
    """
    found: Counter[str] = Counter()
    seen: set[Position] = set()
    for message in messages:
        lineage = _lineage(accounting, message)
        if lineage is None:
            continue
        position = (lineage.partition, lineage.offset)
        if position in seen:
            accounting.fault(position, "is dead-lettered twice")
            continue
        seen.add(position)
        reason = str(loads(dict(message.headers() or ()).get(FAILURE_CAUSE) or b"{}").get("reason"))
        found[reason] += 1
        _check_dead_letter(accounting, layout, message, lineage, reason)
    for position, outcome in ledger.ended.items():
        if outcome == "dead_lettered" and position not in seen:
            accounting.fault(position, "its dead letter is missing")
    return found


def _check_dead_letter(accounting: Accounting, layout: Layout, message: Message, lineage: Lineage, reason: str) -> None:
    position = (lineage.partition, lineage.offset)
    number = accounting.at.get(position)
    if number is None or accounting.expected[number].ending != reason:
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
        position = (lineage.partition, lineage.offset)
        if not 1 <= lineage.deliveries <= layout.redeliveries:
            accounting.fault(position, f"waited in {message.topic()} after {lineage.deliveries} deliveries")
        elif layout.tiers[lineage.deliveries - 1] != message.topic():
            accounting.fault(position, f"waited in {message.topic()} after delivery {lineage.deliveries}")
        elif (position, lineage.deliveries) in found:
            accounting.fault(position, f"waited twice after delivery {lineage.deliveries}")
        else:
            found[position, lineage.deliveries] = read_due(message.headers() or ()) or 0
    return found


def check_releases(accounting: Accounting, ledger: Ledger, waited: dict[Wait, int], messages: Iterable[Message]) -> int:
    """Verify that each retry record was released once, not before it was due, and that the journal agrees.

    Returns:
        the number of early releases.
    """
    early = 0
    left = dict(waited)
    for message in messages:
        lineage = _lineage(accounting, message)
        if lineage is None:
            continue
        position = (lineage.partition, lineage.offset)
        due_ms = left.pop((position, lineage.deliveries), None)
        if due_ms is None:
            accounting.fault(position, f"was released after delivery {lineage.deliveries} without waiting, or twice")
        elif message.timestamp()[1] < due_ms:
            early += 1
            accounting.fault(position, f"was released {due_ms - message.timestamp()[1]} ms early")
    for position, delivery in left:
        accounting.fault(position, f"still waits after delivery {delivery}")
    times = Counter(position for position, _ in waited)
    for position in times.keys() | ledger.retried.keys():
        if times[position] != ledger.retried[position]:
            accounting.fault(position, f"waited {times[position]} times, the journal has {ledger.retried[position]}")
    return early


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
