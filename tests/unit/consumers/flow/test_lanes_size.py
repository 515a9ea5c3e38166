"""Size and number of work items follow the duration of calls, and buffered records are counted exactly."""

from datetime import timedelta

import pytest

from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.lane import Buffered
from kafka_redelivery.consumers.flow.lanes import MAX_RECORDS_PER_ITEM, TARGET_ITEM_S, Lanes
from kafka_redelivery.topology.config.settings import BatchSection, Ordering
from tests.unit.consumers.lane_steps import all_items, called, cheap, finish, offsets, opened
from tests.unit.consumers.records import record


class TestItemSize:
    """Work items of fast handlers contain many records, those of slow handlers one."""

    @pytest.mark.parametrize("ordering", Ordering)
    def test_the_first_item_has_one_record(self, ordering: Ordering) -> None:
        """The duration of a call is not known yet."""
        lanes = Lanes(ordering, slots=1)
        lanes.add(opened(lanes), [record(offset, key=b"%d" % offset) for offset in range(1000)])
        assert offsets(lanes.next_item()) == [0]

    @pytest.mark.parametrize("ordering", [Ordering.KEY, Ordering.UNORDERED])
    def test_slow_calls_get_one_record_each(self, ordering: Ordering) -> None:
        """No record waits behind a slow one."""
        lanes = Lanes(ordering, slots=4)
        called(lanes, TARGET_ITEM_S)
        lanes.add(opened(lanes), [record(offset, key=b"%d" % offset) for offset in range(1000)])
        assert [offsets(lanes.next_item()) for _ in range(5)] == [[0], [1], [2], [3], [4]]

    @pytest.mark.parametrize("ordering", Ordering)
    def test_an_item_takes_the_target_time(self, ordering: Ordering) -> None:
        """Its size follows the duration of a call."""
        lanes = Lanes(ordering, slots=1)
        called(lanes, TARGET_ITEM_S / 10.5)
        lanes.add(opened(lanes), [record(offset, key=b"%d" % offset) for offset in range(1000)])
        assert len(offsets(lanes.next_item())) == 10

    def test_a_handler_that_becomes_slow_gets_smaller_items(self) -> None:
        """And larger ones when it is fast again."""
        lanes = cheap(Ordering.UNORDERED, slots=1)
        lanes.add(opened(lanes), [record(offset) for offset in range(4 * MAX_RECORDS_PER_ITEM)])
        sizes = []
        for seconds in [0.1, *[1e-6] * 60]:
            item = lanes.next_item()
            assert item is not None
            sizes.append(len(item.messages))
            item.seconds.append(seconds)
            finish(lanes, item, position=1)
        assert (sizes[0], sizes[1], sizes[-1]) == (MAX_RECORDS_PER_ITEM, 1, MAX_RECORDS_PER_ITEM)

    @pytest.mark.parametrize(("call_s", "queued"), [(1e-6, 64), (0.1, 64), (0.4, 16), (60.0, 0)])
    def test_slow_calls_queue_fewer_items(self, call_s: float, queued: int) -> None:
        """A redelivery would have to wait behind queued items."""
        lanes = Lanes(Ordering.KEY, slots=64)
        called(lanes, call_s)
        assert lanes.max_queued(64) == queued
        assert lanes.max_queued(3) == min(3, queued)

    @pytest.mark.parametrize(("call_s", "queued"), [(1e-6, 16), (0.001, 10), (0.004, 2), (0.05, 2), (0.2, 1), (60, 0)])
    def test_fast_batches_queue_more(self, call_s: float, queued: int) -> None:
        """A batch does not grow with the speed of its handler, so a turn hands out several."""
        lanes = Lanes(Ordering.KEY, slots=2, filling=BatchFilling(BatchSection(wait=timedelta(0))))
        called(lanes, call_s)
        assert lanes.max_queued(2) == queued


class TestBuffered:
    """Records that wait or are in flight are counted exactly, per partition and in total."""

    @pytest.mark.parametrize("ordering", Ordering)
    def test_from_the_fetch_to_the_outcome(self, ordering: Ordering) -> None:
        """Values and keys count; a tombstone and a missing key count as zero bytes."""
        lanes = cheap(ordering, slots=1)
        assigned = opened(lanes)
        some = [record(0, b"x" * 100, key=b"abc"), record(1, None), record(2, b"", key=b"d"), record(3, b"y" * 7)]
        lanes.add(assigned, list(some))
        assert lanes.buffered(redelivered=False) == Buffered(4, 111)
        assert lanes.buffered(redelivered=True) == Buffered(0, 0)
        assert dict(lanes.all())[assigned.partition].buffered == Buffered(4, 111)
        for item in all_items(lanes):
            assert lanes.buffered(redelivered=False).records > 0
            finish(lanes, item)
        while items := all_items(lanes):
            for item in items:
                finish(lanes, item)
        assert lanes.buffered(redelivered=False) == Buffered(0, 0)

    def test_an_item_knows_the_bytes_of_its_handled_records(self) -> None:
        """The batch that takes them needs it."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        lanes.add(opened(lanes), [record(0, b"x" * 100), record(1, b"x" * 10)])
        item = lanes.next_item()
        assert item is not None
        finish(lanes, item, position=1)
        assert item.bytes == 100
        assert lanes.buffered(redelivered=False) == Buffered(1, 10)

    def test_an_item_in_a_slot_counts_after_its_partition_is_closed(self) -> None:
        """Until the slot returns it."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        assigned = opened(lanes)
        lanes.add(assigned, [record(offset, b"x") for offset in range(MAX_RECORDS_PER_ITEM + 5)])
        item = lanes.next_item()
        assert item is not None
        lanes.close(assigned)
        assert lanes.buffered(redelivered=False) == Buffered(MAX_RECORDS_PER_ITEM, MAX_RECORDS_PER_ITEM)
        finish(lanes, item, position=1)
        assert lanes.buffered(redelivered=False) == Buffered(0, 0)
