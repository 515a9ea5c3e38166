"""Lanes, and what a worker does with them, in a word; none of it is under test."""

from __future__ import annotations

from consumers.lanes import Lanes
from consumers.unit import Assigned, Unit
from tests.unit.consumers.records import record, source
from topology.settings import Ordering


def cheap(ordering: Ordering, slots: int) -> Lanes:
    """Lanes of a handler that is known to take no time."""
    lanes = Lanes(ordering, slots)
    called(lanes, 1e-6)
    return lanes


def called(lanes: Lanes, seconds: float) -> None:
    """A call takes so long, in a partition of its own."""
    assigned = opened(lanes, 99)
    lanes.add(assigned, [record(0)])
    unit = lanes.next_unit()
    assert unit is not None
    unit.seconds.append(seconds)
    finish(lanes, unit)
    lanes.close(assigned)


def opened(lanes: Lanes, partition: int = 0) -> Assigned:
    """A partition with its lanes."""
    assigned = source(partition=partition)
    lanes.open(assigned)
    return assigned


def keyed(lanes: Lanes, assigned: Assigned, keys: str, first: int = 0) -> None:
    """Queue a record for each letter, which is its key."""
    partition = assigned.partition.number
    lanes.add(assigned, [record(first + n, key=key.encode(), partition=partition) for n, key in enumerate(keys)])


def offsets(unit: Unit | None) -> list[int]:
    """What a unit is made of."""
    assert unit is not None
    return [message.offset() for message in unit.messages]


def finish(lanes: Lanes, unit: Unit, position: int | None = None) -> None:
    """The slot gives a unit back, done as far as ``position`` (default: to its end)."""
    unit.position = len(unit.messages) if position is None else position
    lanes.put_back(unit)


def all_units(lanes: Lanes) -> list[Unit]:
    """Every unit that may start now."""
    found = []
    while (unit := lanes.next_unit()) is not None:
        found.append(unit)
    return found
