"""Batches: which records a batch handler gets together, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.delivery_notes import DeliveryNotes, NotedLanes
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import BatchSection, Ordering
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from tests.unit.consumers.lane_steps import all_items, finish, keyed, offsets, opened
from tests.unit.consumers.records import NOW, record


class Watched(Lanes):
    """Lanes with a clock of the test."""

    def __init__(
        self,
        records: int,
        *,
        wait_ms: int = 100,
        ordering: Ordering = Ordering.PARTITION,
        slots: int = 4,
        blocking: bool = False,
    ) -> None:
        self.now_ms = 0
        section = BatchSection(records=records, wait=timedelta(milliseconds=wait_ms))
        filling = BatchFilling(section, one_per_key=blocking, monotonic_s=lambda: 100 + self.now_ms / 1000)
        super().__init__(ordering, slots, filling=filling, clock=lambda: NOW + self.now_ms)


def batch_of(lanes: Lanes) -> list[int]:
    """The offsets of the only batch that may start now."""
    [item] = all_items(lanes)
    assert item.batch
    return offsets(item)


def only(lanes: Lanes) -> WorkItem:
    """The only work item that may start now."""
    [item] = all_items(lanes)
    return item


class TestFilling:
    """A batch starts when it is full, or after its wait."""

    def test_a_full_batch_starts_at_once(self) -> None:
        """What is left begins a wait of its own."""
        lanes = Watched(3, ordering=Ordering.UNORDERED)
        keyed(lanes, opened(lanes), "abcdefgh")
        assert [offsets(item) for item in all_items(lanes)] == [[0, 1, 2], [3, 4, 5]]
        lanes.now_ms = 99
        assert lanes.next_item() is None
        lanes.now_ms = 100
        assert batch_of(lanes) == [6, 7]

    def test_a_batch_waits_from_its_first_record_on(self) -> None:
        lanes = Watched(5)
        assigned = opened(lanes)
        keyed(lanes, assigned, "a")
        lanes.now_ms = 60
        keyed(lanes, assigned, "b", first=1)
        assert lanes.next_item() is None
        assert lanes.due_in_s(1.0) == pytest.approx(0.04)
        lanes.now_ms = 100
        assert lanes.due_in_s(1.0) == 0
        assert batch_of(lanes) == [0, 1]
        assert lanes.due_in_s(1.0) == 1.0

    def test_records_that_come_during_a_call_have_waited_when_it_ends(self) -> None:
        """In order of the partition the next batch cannot start before."""
        lanes = Watched(5)
        assigned = opened(lanes)
        keyed(lanes, assigned, "abcde")
        item = only(lanes)
        keyed(lanes, assigned, "fg", first=5)
        lanes.now_ms = 150
        assert lanes.next_item() is None
        assert lanes.due_in_s(1.0) == 1.0
        finish(lanes, item)
        assert batch_of(lanes) == [5, 6]

    def test_without_a_wait_what_is_there_starts(self) -> None:
        lanes = Watched(5, wait_ms=0)
        keyed(lanes, opened(lanes), "ab")
        assert batch_of(lanes) == [0, 1]

    def test_a_batch_is_of_one_partition(self) -> None:
        """Each fills its own."""
        lanes = Watched(3)
        first, second = opened(lanes, 0), opened(lanes, 1)
        keyed(lanes, first, "ab")
        lanes.now_ms = 10
        keyed(lanes, second, "ab")
        assert all_items(lanes) == []
        lanes.now_ms = 100
        assert only(lanes).lane.assigned is first
        lanes.now_ms = 110
        assert only(lanes).lane.assigned is second

    def test_a_partition_that_leaves_while_it_fills_is_forgotten(self) -> None:
        lanes = Watched(3)
        assigned = opened(lanes)
        keyed(lanes, assigned, "ab")
        lanes.close(assigned)
        lanes.now_ms = 100
        assert (lanes.next_item(), lanes.waiting, lanes.due_in_s(1.0)) == (None, 0, 1.0)

    def test_a_held_partition_starts_its_batch_afterwards(self) -> None:
        """Its wait is over by then."""
        lanes = Watched(3)
        assigned = opened(lanes)
        keyed(lanes, assigned, "ab")
        lanes.hold({assigned.partition})
        lanes.now_ms = 100
        assert lanes.next_item() is None
        assert lanes.due_in_s(1.0) == 1.0
        lanes.hold(frozenset())
        assert batch_of(lanes) == [0, 1]


class TestOneByOne:
    """After a call that decided about no record, each is handled by itself."""

    def test_the_records_of_an_item_that_is_no_batch_any_more(self) -> None:
        """Until they have their outcome. Those behind them form batches again."""
        lanes = Watched(3, ordering=Ordering.UNORDERED)
        assigned = opened(lanes)
        keyed(lanes, assigned, "abc")
        item = only(lanes)
        item.handle_one_by_one()
        finish(lanes, item, position=0)
        again = only(lanes)
        assert (offsets(again), again.batch) == ([0, 1, 2], False)
        finish(lanes, again, position=1)  # its slice of time was over
        again = only(lanes)
        assert (offsets(again), again.batch) == ([1, 2], False)
        finish(lanes, again)
        keyed(lanes, assigned, "def", first=3)
        assert batch_of(lanes) == [3, 4, 5]

    def test_they_do_not_wait(self) -> None:
        """The batch was already taken once."""
        lanes = Watched(5)
        keyed(lanes, opened(lanes), "abc")
        lanes.now_ms = 100
        item = only(lanes)
        item.handle_one_by_one()
        finish(lanes, item, position=0)
        assert offsets(only(lanes)) == [0, 1, 2]

    def test_a_slow_one_does_not_delay_the_others(self) -> None:
        """What is behind it goes to another slot, and stays one by one."""
        lanes = Watched(3, ordering=Ordering.UNORDERED)
        keyed(lanes, opened(lanes), "abc")
        item = only(lanes)
        item.handle_one_by_one()
        finish(lanes, item, position=0)
        again = only(lanes)
        again.started_s = 1.0
        assert lanes.split(again, 2.0) is not None
        rest = only(lanes)
        assert (offsets(rest), rest.batch) == ([1, 2], False)

    def test_a_batch_that_was_not_started_is_a_batch_again(self) -> None:
        """Its slot was told to stop, or something outside the records did not answer."""
        lanes = Watched(3)
        keyed(lanes, opened(lanes), "abc")
        item = only(lanes)
        finish(lanes, item, position=1)
        lanes.now_ms = 100
        assert batch_of(lanes) == [1, 2]


class TestBlocking:
    """A record that fails blocks those behind it, so no batch has two records of a key."""

    def test_one_record_of_each_key(self) -> None:
        """The next ones of a key follow when its first has its outcome."""
        lanes = Watched(4, ordering=Ordering.KEY, blocking=True)
        keyed(lanes, opened(lanes), "aabacd")
        first = only(lanes)
        assert (offsets(first), first.batch) == ([0, 2, 4, 5], True)
        finish(lanes, first)
        lanes.now_ms = 100
        second = only(lanes)
        assert offsets(second) == [1]
        finish(lanes, second)
        lanes.now_ms = 200
        assert batch_of(lanes) == [3]

    def test_a_key_in_another_batch_waits(self) -> None:
        lanes = Watched(2, ordering=Ordering.KEY, blocking=True)
        keyed(lanes, opened(lanes), "abac")
        first, second = all_items(lanes)
        assert (offsets(first), offsets(second)) == ([0, 1], [3])
        finish(lanes, first)
        lanes.now_ms = 100
        assert batch_of(lanes) == [2]

    def test_no_more_records_are_handled_than_may_wait_in_place(self) -> None:
        """All of them may fail, and the metadata of the commit has to list them."""
        lanes = Watched(40, ordering=Ordering.KEY, blocking=True)
        assigned = opened(lanes)
        lanes.add(assigned, [record(n, key=b"%d" % n) for n in range(200)])
        items = all_items(lanes)
        assert sum(len(item.messages) for item in items) <= MAX_IN_PLACE + len(items)
        assert len(items[0].messages) == 40
        first = items[0]
        for message in first.messages:
            assigned.progress.waiting[message.offset()] = WaitingRecord(1, NOW + 1000)
        finish(lanes, first)
        for message in first.messages:
            lanes.requeue(assigned, message)
        for item in items[1:]:
            finish(lanes, item)
        lanes.now_ms = 100
        assert sum(len(item.messages) for item in all_items(lanes)) <= MAX_IN_PLACE - 40
        lanes.now_ms = 1000
        due = lanes.next_item()
        assert due is not None
        assert (len(due.messages), due.batch) == (1, False)


class TestDeliveryNotes:
    """``persistDeliveryCountBeforeDelivery``: a note covers a batch, and a suspect is no part of one."""

    def _lanes(self) -> tuple[NotedLanes, DeliveryNotes, AssignedPartition]:
        lanes = NotedLanes(
            Ordering.PARTITION,
            1,
            5000,
            max_in_place=1,
            filling=BatchFilling(BatchSection(records=50, wait=timedelta(0))),
            clock=lambda: NOW,
            monotonic_s=lambda: 100.0,
        )
        return lanes, DeliveryNotes([lanes]), opened(lanes)

    def test_a_note_covers_at_least_a_batch(self) -> None:
        """However slow the calls are."""
        lanes, notes, assigned = self._lanes()
        lanes._mean_call_s = 60.0
        lanes.add(assigned, [record(n) for n in range(100)])
        assert lanes.next_item() is None
        assert notes.prepare(idle=True) == [assigned]
        notes.confirm()
        assert batch_of(lanes) == list(range(50))

    def test_suspects_come_one_at_a_time(self) -> None:
        """After a commit for each."""
        lanes, notes, assigned = self._lanes()
        assigned.progress.suspect_end = 2
        for n in range(3):
            assert assigned.progress.track(n)
        lanes.add(assigned, [record(n) for n in range(3)])
        for expected in ([0], [1]):
            assert notes.prepare(idle=True) == [assigned]
            notes.confirm()
            item = only(lanes)
            assert (offsets(item), item.batch) == (expected, False)
            finish(lanes, item)
            assigned.progress.complete(offsets(item))
        notes.prepare(idle=True)
        notes.confirm()
        assert batch_of(lanes) == [2]
