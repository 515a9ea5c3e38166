"""Lanes of held partitions start nothing, and lose nothing."""

import pytest

from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from tests.unit.consumers.lane_steps import all_items, cheap, finish, keyed, offsets, opened
from tests.unit.consumers.records import NOW


@pytest.mark.parametrize("ordering", list(Ordering))
def test_an_enqueued_lane_that_is_held_starts_nothing(ordering: Ordering) -> None:
    """Also with what arrives or comes back meanwhile; other partitions go on."""
    lanes = cheap(ordering, slots=1)
    paused, running = opened(lanes, 0), opened(lanes, 1)
    keyed(lanes, paused, "abcd")
    item = lanes.next_item()
    assert item is not None
    finish(lanes, item, position=1)
    lanes.hold({paused.partition})
    keyed(lanes, paused, "ef", first=4)
    keyed(lanes, running, "x")
    assert [each.lane.assigned for each in all_items(lanes)] == [running]
    assert not lanes.ready, "or the polling thread would never wait"
    assert lanes.waiting == 6 - item.position

    lanes.hold(frozenset())
    found = [offset for each in all_items(lanes) for offset in offsets(each)]
    assert sorted(found) == list(range(item.position, 6))


def test_what_is_in_flight_comes_back_to_its_place() -> None:
    """Before the records behind it."""
    lanes = cheap(Ordering.PARTITION, slots=1)
    paused = opened(lanes)
    keyed(lanes, paused, "abc")
    item = lanes.next_item()
    assert item is not None
    lanes.hold({paused.partition})
    keyed(lanes, paused, "d", first=3)
    finish(lanes, item, position=2)
    assert lanes.next_item() is None
    lanes.hold(frozenset())
    assert offsets(lanes.next_item()) == [2, 3]


@pytest.mark.parametrize("ordering", list(Ordering))
def test_a_held_lane_wakes_nobody(ordering: Ordering) -> None:
    """A record that waits in place and is overdue would otherwise keep the polling thread from waiting."""
    lanes = cheap(ordering, slots=1)
    paused = opened(lanes)
    paused.progress.waiting[0] = WaitingRecord(2, NOW + 500)
    keyed(lanes, paused, "ab")
    assert lanes.next_item() is None or ordering is not Ordering.PARTITION
    lanes.clock = lambda: NOW + 1_000
    for _ in range(2):  # turns of the polling thread
        lanes.hold({paused.partition})
        assert lanes.next_item() is None
    lanes.hold({paused.partition})
    assert lanes.due_in_s(1.0) == 1.0

    lanes.hold(frozenset())
    assert 0 in [offset for each in all_items(lanes) for offset in offsets(each)]


def test_what_waits_in_place_wakes_nobody_while_another_partition_is_held() -> None:
    """Each turn of the polling thread holds the same partitions again."""
    lanes = cheap(Ordering.PARTITION, slots=1)
    paused, waiting = opened(lanes, 0), opened(lanes, 1)
    waiting.progress.waiting[0] = WaitingRecord(2, NOW + 3_600_000)
    lanes.clock = lambda: NOW
    keyed(lanes, waiting, "ab")
    assert lanes.next_item() is None
    for _ in range(2):
        lanes.hold({paused.partition})
        assert not lanes.ready
