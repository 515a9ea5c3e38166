"""Redeliveries and fresh records share the slots: neither starves the other."""

from consumers.lanes import DUE_SHARE, Lanes
from tests.unit.consumers.records import ready, record, source
from topology.settings import Ordering


def test_redeliveries_go_first_and_every_fourth_unit_is_fresh() -> None:
    """Where both wait, three units of redeliveries are begun for one of fresh records."""
    lanes = Lanes(Ordering.PARTITION, slots=1)
    for partition in range(8):
        for assigned in (source(partition=partition), ready(partition=partition)):
            lanes.open(assigned)
            lanes.add(assigned, [record(0, partition=partition)])

    begun = [unit.lane.assigned.redelivered for unit in iter(lanes.next_unit, None)]

    assert begun[: 2 * (DUE_SHARE + 1)] == [True, True, True, False] * 2
    assert begun[2 * (DUE_SHARE + 1) :] == [True, True] + [False] * 6, "what is left over is not held back"


def test_without_redeliveries_nothing_is_held_back() -> None:
    """The share costs nothing where nothing is due."""
    lanes = Lanes(Ordering.PARTITION, slots=1)
    for partition in range(3):
        assigned = source(partition=partition)
        lanes.open(assigned)
        lanes.add(assigned, [record(0, partition=partition)])

    assert sum(1 for _ in iter(lanes.next_unit, None)) == 3
