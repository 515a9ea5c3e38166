"""Short names for what a worker does with lanes. Not under test here."""

from __future__ import annotations

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import Ordering
from tests.unit.consumers.records import NOW, record, source


def cheap(ordering: Ordering, slots: int) -> Lanes:
    """Lanes of a handler whose calls are known to take no time."""
    lanes = Lanes(ordering, slots, clock=lambda: NOW)
    called(lanes, 1e-6)
    return lanes


def called(lanes: Lanes, seconds: float) -> None:
    """Let a call take so long, in a partition of its own."""
    assigned = opened(lanes, 99)
    lanes.add(assigned, [record(0)])
    item = lanes.next_item()
    assert item is not None
    item.seconds.append(seconds)
    finish(lanes, item)
    lanes.close(assigned)


def opened(lanes: Lanes, partition: int = 0) -> AssignedPartition:
    """Open a partition."""
    assigned = source(partition=partition)
    lanes.open(assigned)
    return assigned


def keyed(lanes: Lanes, assigned: AssignedPartition, keys: str, first: int = 0) -> None:
    """Add one record per letter, with the letter as its key."""
    partition = assigned.partition.number
    lanes.add(assigned, [record(first + n, key=key.encode(), partition=partition) for n, key in enumerate(keys)])


def offsets(item: WorkItem | None) -> list[int]:
    """The offsets in a work item."""
    assert item is not None
    return [message.offset() for message in item.messages]


def finish(lanes: Lanes, item: WorkItem, position: int | None = None) -> None:
    """Put a work item back that is handled up to ``position`` (default: to its end)."""
    item.position = len(item.messages) if position is None else position
    lanes.put_back(item)


def all_items(lanes: Lanes) -> list[WorkItem]:
    """Every work item that may start now."""
    found = []
    while (item := lanes.next_item()) is not None:
        found.append(item)
    return found
