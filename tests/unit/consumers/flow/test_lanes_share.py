"""Redeliveries and first deliveries share the slots: neither starves the other."""

from kafka_redelivery.consumers.flow.lanes import MAX_REDELIVERIES_IN_A_ROW, Lanes
from kafka_redelivery.topology.config.settings import Ordering
from tests.unit.consumers.records import ready, record, source


def test_every_fourth_item_is_a_first_delivery() -> None:
    """If both wait, three work items of redeliveries start before one of first deliveries."""
    lanes = Lanes(Ordering.PARTITION, slots=1)
    for partition in range(8):
        for assigned in (source(partition=partition), ready(partition=partition)):
            lanes.open(assigned)
            lanes.add(assigned, [record(0, partition=partition)])

    started = [item.lane.assigned.redelivered for item in iter(lanes.next_item, None)]

    assert started[: 2 * (MAX_REDELIVERIES_IN_A_ROW + 1)] == [True, True, True, False] * 2
    assert started[2 * (MAX_REDELIVERIES_IN_A_ROW + 1) :] == [True, True] + [False] * 6, "the rest follows at once"


def test_first_deliveries_do_not_wait_for_missing_redeliveries() -> None:
    """All of them start."""
    lanes = Lanes(Ordering.PARTITION, slots=1)
    for partition in range(3):
        assigned = source(partition=partition)
        lanes.open(assigned)
        lanes.add(assigned, [record(0, partition=partition)])

    assert sum(1 for _ in iter(lanes.next_item, None)) == 3
