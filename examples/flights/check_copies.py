"""The part of the check that looks at the copies the group made: dead letters, waiting and ready records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from json import loads

from examples.flights.books import Books
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger, Place
from examples.flights.truth import Ending
from examples.flights.wire import FLIGHTS
from topology.errors import HeaderError
from topology.headers import FAILURE_CAUSE, ORIG_QUEUE, read_due, read_lineage
from topology.lineage import Lineage
from transport.protocols import Message

Wait = tuple[Place, int]
"""A record, and how many deliveries it had before it waited."""


def check_dead_letters(books: Books, ledger: Ledger, layout: Layout, messages: Iterable[Message]) -> Counter[str]:
    """Exactly the records that must be dead are, once, with their bytes, their reason and their history.

    Returns:
        how many there are, by reason.
    """
    found: Counter[str] = Counter()
    seen: set[Place] = set()
    for message in messages:
        lineage = _lineage(books, message)
        if lineage is None:
            continue
        place = (lineage.partition, lineage.offset)
        if place in seen:
            books.fault(place, "is dead-lettered twice")
            continue
        seen.add(place)
        reason = str(loads(dict(message.headers() or ()).get(FAILURE_CAUSE) or b"{}").get("reason"))
        found[reason] += 1
        _check_dead_letter(books, layout, message, lineage, reason)
    for place, outcome in ledger.ended.items():
        if outcome == "dead_lettered" and place not in seen:
            books.fault(place, "its dead letter is missing")
    return found


def _check_dead_letter(books: Books, layout: Layout, message: Message, lineage: Lineage, reason: str) -> None:
    place = (lineage.partition, lineage.offset)
    number = books.at.get(place)
    if number is None or books.expected[number].ending != reason:
        books.fault(place, f"is dead-lettered as {reason}")
        return
    if books.sent[number] != (message.key(), message.value()):
        books.fault(place, "its dead letter has other bytes than itself")
    deliveries = {Ending.UNDECODABLE: 0, Ending.REJECTED: 1}.get(Ending(reason), layout.redeliveries + 1)
    if lineage.deliveries != deliveries:
        books.fault(place, f"its dead letter tells of {lineage.deliveries} deliveries instead of {deliveries}")
    group = dict(message.headers() or ()).get(ORIG_QUEUE)
    if group != layout.group.encode():
        books.fault(place, f"its dead letter comes from the group {group!r}")
    if message.partition() != lineage.partition:
        books.fault(place, f"its dead letter is in partition {message.partition()}")


def waits(books: Books, layout: Layout, messages: Iterable[Message]) -> dict[Wait, int]:
    """Every wait in a tier, each in the right one and there once -> when it is due (epoch ms)."""
    found: dict[Wait, int] = {}
    for message in messages:
        lineage = _lineage(books, message)
        if lineage is None:
            continue
        place = (lineage.partition, lineage.offset)
        if not 1 <= lineage.deliveries <= layout.redeliveries:
            books.fault(place, f"waited in {message.topic()} after {lineage.deliveries} deliveries")
        elif layout.tiers[lineage.deliveries - 1] != message.topic():
            books.fault(place, f"waited in {message.topic()} after delivery {lineage.deliveries}")
        elif (place, lineage.deliveries) in found:
            books.fault(place, f"waited twice after delivery {lineage.deliveries}")
        else:
            found[place, lineage.deliveries] = read_due(message.headers() or ()) or 0
    return found


def check_releases(books: Books, ledger: Ledger, waited: dict[Wait, int], messages: Iterable[Message]) -> int:
    """What waited was released, once, and not before it was due; and the journal tells of the same waits.

    Returns:
        how many were released early.
    """
    early = 0
    left = dict(waited)
    for message in messages:
        lineage = _lineage(books, message)
        if lineage is None:
            continue
        place = (lineage.partition, lineage.offset)
        due_ms = left.pop((place, lineage.deliveries), None)
        if due_ms is None:
            books.fault(place, f"was released after delivery {lineage.deliveries} without waiting, or twice")
        elif message.timestamp()[1] < due_ms:
            early += 1
            books.fault(place, f"was released {due_ms - message.timestamp()[1]} ms early")
    for place, delivery in left:
        books.fault(place, f"still waits after delivery {delivery}")
    times = Counter(place for place, _ in waited)
    for place in times.keys() | ledger.retried.keys():
        if times[place] != ledger.retried[place]:
            books.fault(place, f"waited {times[place]} times, the journal says {ledger.retried[place]}")
    return early


def _lineage(books: Books, message: Message) -> Lineage | None:
    """Where a copy comes from; notes a copy that does not tell, or tells of another topic."""
    try:
        lineage = read_lineage(message.headers() or ())
    except HeaderError as error:
        books.faults.add(f"{message.topic()}-{message.partition()}@{message.offset()}: {error}")
        return None
    if lineage.address != FLIGHTS:
        books.faults.add(f"{message.topic()}-{message.partition()}@{message.offset()} comes from {lineage.address}")
        return None
    return lineage
