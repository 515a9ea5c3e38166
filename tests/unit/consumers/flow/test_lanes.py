"""Which records may be handled concurrently: the configured order is kept, and no record is lost."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.delivery_notes import NotedLanes
from kafka_redelivery.consumers.flow.lane import Buffered
from kafka_redelivery.consumers.flow.lanes import MAX_RECORDS_PER_ITEM, TARGET_ITEM_S, Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import BatchSection, Ordering
from tests.examples import share
from tests.unit.consumers.lane_steps import all_items, cheap, finish, keyed, offsets, opened
from tests.unit.consumers.records import NOW, ready, record, source


def keys(item: WorkItem) -> set[bytes | None]:
    """The keys in a work item."""
    return {message.key() for message in item.messages}


class TestByPartition:
    """Records of a partition are handled one after the other."""

    def test_a_partition_has_one_item_in_flight(self) -> None:
        """Records that arrive meanwhile wait for it."""
        lanes = cheap(Ordering.PARTITION, slots=4)
        assigned = opened(lanes)
        keyed(lanes, assigned, "abc")
        [first] = all_items(lanes)
        keyed(lanes, assigned, "de", first=3)
        assert lanes.next_item() is None
        finish(lanes, first)
        assert offsets(lanes.next_item()) == [3, 4]

    def test_partitions_are_handled_concurrently(self) -> None:
        """No order is kept between partitions."""
        lanes = cheap(Ordering.PARTITION, slots=4)
        for partition in range(3):
            keyed(lanes, opened(lanes, partition), "ab")
        assert sorted(item.lane.assigned.partition.number for item in all_items(lanes)) == [0, 1, 2]

    def test_unhandled_records_of_an_item_come_first_again(self) -> None:
        """Before those that arrived meanwhile."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        assigned = opened(lanes)
        keyed(lanes, assigned, "abcd")
        [first] = all_items(lanes)
        keyed(lanes, assigned, "ef", first=4)
        finish(lanes, first, position=1)
        assert lanes.waiting == 5
        assert offsets(lanes.next_item()) == [1, 2, 3, 4, 5]

    def test_partitions_take_turns(self) -> None:
        """A partition that always has records does not keep the others from a slot."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        busy, quiet = opened(lanes, 0), opened(lanes, 1)
        keyed(lanes, busy, "ab")
        first = lanes.next_item()
        assert first is not None
        keyed(lanes, quiet, "c")
        keyed(lanes, busy, "d", first=2)
        finish(lanes, first, position=1)
        turn = lanes.next_item()
        assert turn is not None
        assert turn.lane.assigned is quiet

    def test_no_other_lane_is_looked_at(self) -> None:
        """An item costs the same with any number of partitions, and the clock is read only if a record waits."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        lanes.clock = lambda: pytest.fail("no record waits in place")
        partitions = [opened(lanes, partition) for partition in range(3)]
        for assigned in partitions:
            keyed(lanes, assigned, "a")
        for assigned in partitions[1:]:
            del assigned.progress
        assert lanes.next_item() is not None

    def test_an_item_has_a_maximum_size(self) -> None:
        """A commit must not have to wait for thousands of calls."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        lanes.add(opened(lanes), [record(offset) for offset in range(MAX_RECORDS_PER_ITEM + 1)])
        assert offsets(lanes.next_item()) == list(range(MAX_RECORDS_PER_ITEM))
        assert lanes.waiting == 1


class TestByKey:
    """Records of a key are handled one after the other; those of other keys may overtake."""

    def test_a_key_is_in_one_item_at_a_time(self) -> None:
        """Even if more slots are free."""
        lanes = cheap(Ordering.KEY, slots=8)
        keyed(lanes, opened(lanes), "abcdefgh" * 4)
        items = all_items(lanes)
        together = [keys(item) for item in items]
        assert len(items) > 1
        assert sum(map(len, together)) == len(set().union(*together))

    def test_a_key_keeps_its_order(self) -> None:
        """Across all work items that contain it."""
        lanes = cheap(Ordering.KEY, slots=3)
        keyed(lanes, opened(lanes), "abcab" * 20)
        handled: dict[bytes | None, list[int]] = {}
        while items := all_items(lanes):
            for item in reversed(items):
                for message in item.messages:
                    handled.setdefault(message.key(), []).append(message.offset())
                finish(lanes, item)
        assert {key: len(found) for key, found in handled.items()} == {b"a": 40, b"b": 40, b"c": 20}
        assert all(found == sorted(found) for found in handled.values())

    def test_records_without_a_key_keep_their_order(self) -> None:
        """They are treated as if they had the same key."""
        lanes = cheap(Ordering.KEY, slots=4)
        lanes.add(opened(lanes), [record(offset) for offset in range(8)])
        assert len(all_items(lanes)) == 1

    def test_a_key_in_two_partitions_is_handled_concurrently(self) -> None:
        """Kafka keeps no order across partitions."""
        lanes = cheap(Ordering.KEY, slots=4)
        for partition in range(2):
            keyed(lanes, opened(lanes, partition), "a")
        assert len(all_items(lanes)) == 2


class TestUnordered:
    """All slots are used."""

    def test_items_of_a_partition_are_handled_concurrently(self) -> None:
        """Even records with the same key do not wait for each other."""
        lanes = cheap(Ordering.UNORDERED, slots=2)
        keyed(lanes, opened(lanes), "aaaa")
        items = all_items(lanes)
        assert len(items) == 4
        assert sorted(offset for item in items for offset in offsets(item)) == [0, 1, 2, 3]

    def test_a_backlog_is_shared_between_the_slots(self) -> None:
        """No slot takes so much that another is idle."""
        lanes = cheap(Ordering.UNORDERED, slots=4)
        lanes.add(opened(lanes), [record(offset) for offset in range(80)])
        first = lanes.next_item()
        assert len(offsets(first)) == 80 // 8


class TestClose:
    @pytest.mark.parametrize("ordering", Ordering)
    def test_waiting_records_are_removed(self, ordering: Ordering) -> None:
        """Another worker owns them now."""
        lanes = cheap(ordering, slots=4)
        leaving, staying = opened(lanes, 0), opened(lanes, 1)
        keyed(lanes, leaving, "abcdef")
        keyed(lanes, staying, "xy")
        lanes.close(leaving)
        assert lanes.waiting == 2
        assert {item.lane.assigned.partition.number for item in all_items(lanes)} == {1}

    @pytest.mark.parametrize("ordering", Ordering)
    def test_records_put_back_after_a_close_are_removed(self, ordering: Ordering) -> None:
        """The lane of a closed partition takes no records."""
        lanes = cheap(ordering, slots=1)
        leaving = opened(lanes)
        keyed(lanes, leaving, "aaa")
        item = lanes.next_item()
        assert item is not None
        lanes.close(leaving)
        leaving.closed = True
        finish(lanes, item, position=0)
        assert lanes.waiting == 0
        assert lanes.next_item() is None

    def test_a_partition_that_is_assigned_again_gets_a_new_lane(self) -> None:
        """Its old work item, still in flight, blocks nothing and puts nothing back."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        before = opened(lanes)
        keyed(lanes, before, "ab")
        old = lanes.next_item()
        assert old is not None
        lanes.close(before)
        before.closed = True
        again = opened(lanes)
        keyed(lanes, again, "ab")
        new = lanes.next_item()
        assert new is not None
        assert new.lane.assigned is again
        finish(lanes, old, position=0)
        assert lanes.waiting == 0


@pytest.mark.parametrize("ordering", list(Ordering))
def test_a_closed_partition_is_not_counted_any_more(ordering: Ordering) -> None:
    """Neither records that wait for a slot nor those whose delivery is not persisted."""
    lanes = NotedLanes(ordering, 2, max_ahead=100)
    assigned = opened(lanes)
    keyed(lanes, assigned, "abcd")
    lanes.admit(assigned, 2)
    assert lanes.waiting == 2
    lanes.close(assigned)
    assert lanes.waiting == 0
    assert lanes.buffered(redelivered=False) == Buffered()


def test_the_result_of_an_abandoned_item_frees_its_lane() -> None:
    """A handler that never returns occupies its slot, but not its partition."""
    lanes = cheap(Ordering.PARTITION, slots=2)
    keyed(lanes, opened(lanes), "abc")
    stuck = lanes.next_item()
    assert stuck is not None
    stuck.started_s = 1.0
    result = stuck.abandon(2.0)
    assert result is not None
    finish(lanes, result, position=1)
    assert offsets(lanes.next_item()) == [1, 2]


class _Machine(RuleBasedStateMachine):
    """Any sequence of what a worker does with its lanes, compared with a simple model."""

    ordering: Ordering
    open_ = Bundle("open_")
    in_flight = Bundle("in_flight")

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[AssignedPartition, list[tuple[int, bytes]]] = {}
        self.running: dict[WorkItem, list[tuple[int, bytes]]] = {}
        self.handled: dict[AssignedPartition, list[tuple[int, bytes]]] = {}
        self.added = 0
        self.removed = 0

    @initialize(slots=st.integers(1, 3))
    def start(self, slots: int) -> None:
        self.lanes = cheap(self.ordering, slots)

    @rule(target=open_, redelivered=st.booleans())
    def open_partition(self, redelivered: bool) -> AssignedPartition:  # noqa: FBT001 - drawn
        assigned = (ready if redelivered else source)(partition=len(self.handled))
        self.lanes.open(assigned)
        self.waiting[assigned], self.handled[assigned] = [], []
        return assigned

    @rule(assigned=open_, drawn=st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=24))
    def add(self, assigned: AssignedPartition, drawn: list[bytes]) -> None:
        new = [(self.added + n, key) for n, key in enumerate(drawn)]
        self.added += len(new)
        self.lanes.add(assigned, [record(offset, key=key) for offset, key in new])
        self.waiting[assigned] += new

    @rule(target=in_flight)
    def next_item(self) -> WorkItem | None:
        return self.start_next()

    def start_next(self) -> WorkItem | None:
        item = self.lanes.next_item()
        if item is None:
            self.nothing_could_start()
            return None
        assigned = item.lane.assigned
        taken = [(message.offset(), message.key() or b"") for message in item.messages]
        assert taken
        self.may_start(assigned, taken)
        for pair in taken:
            self.waiting[assigned].remove(pair)
        self.running[item] = taken
        return item

    def may_start(self, assigned: AssignedPartition, taken: list[tuple[int, bytes]]) -> None:
        waiting = self.waiting[assigned]
        concurrent = [pair for item, pairs in self.running.items() if item.lane.assigned is assigned for pair in pairs]
        if self.ordering is Ordering.PARTITION:
            assert not concurrent
            assert taken == waiting[: len(taken)]
        if self.ordering is Ordering.KEY:
            assert not {key for _, key in taken} & {key for _, key in concurrent}
            for key in {key for _, key in taken}:
                mine = [pair for pair in taken if pair[1] == key]
                assert mine == [pair for pair in waiting if pair[1] == key][: len(mine)]

    def nothing_could_start(self) -> None:
        busy = {(item.lane.assigned, key) for item, pairs in self.running.items() for _, key in pairs}
        partitions = {assigned for assigned, _ in busy}
        for assigned, waiting in self.waiting.items():
            if self.ordering is Ordering.KEY:
                assert all((assigned, key) in busy for _, key in waiting), "a key waits only for itself"
            elif self.ordering is Ordering.UNORDERED or assigned not in partitions:
                assert not waiting

    @rule(item=consumes(in_flight), data=st.data())
    def put_back(self, item: WorkItem | None, data: st.DataObject) -> None:
        if item is not None:
            item.seconds.append(data.draw(st.sampled_from([1e-6, TARGET_ITEM_S / 3])))
            self.back(item, data.draw(st.integers(item.taken, len(item.messages))))

    @precondition(lambda self: any(len(item.messages) > 1 and not item.stop for item in self.running))
    @rule(data=st.data())
    def split(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from([item for item in self.running if len(item.messages) > 1 and not item.stop]))
        item.position = data.draw(st.integers(0, len(item.messages) - 1))
        item.started_s = 1.0
        done = self.lanes.split(item, 2.0)
        assigned, taken = item.lane.assigned, self.running[item]
        if done is None:
            item.position = 0
            return
        assert assigned in self.waiting
        assert [message.offset() for message in done.messages] == [offset for offset, _ in taken[: done.position]]
        self.handled[assigned] += taken[: done.position]
        self.waiting[assigned] = sorted(taken[done.position + 1 :] + self.waiting[assigned])
        self.running[item] = [taken[done.position]]

    def back(self, item: WorkItem, position: int) -> None:
        item.position = position
        left = item.without_taken()
        self.lanes.put_back(left)
        position = left.position
        taken = self.running.pop(item)
        assigned = item.lane.assigned
        if assigned in self.waiting:
            self.handled[assigned] += taken[:position]
            self.waiting[assigned] = sorted(taken[position:] + self.waiting[assigned])
        else:
            self.removed += len(taken)

    @rule(assigned=consumes(open_))
    def close(self, assigned: AssignedPartition) -> None:
        self.lanes.close(assigned)
        assigned.closed = True
        self.removed += len(self.waiting.pop(assigned))

    @invariant()
    def waiting_is_counted(self) -> None:
        if hasattr(self, "lanes"):
            waiting = sum(map(len, self.waiting.values()))
            assert self.lanes.waiting == waiting
            buffered = [self.lanes.buffered(redelivered=redelivered) for redelivered in (False, True)]
            records = waiting + sum(map(len, self.running.values()))
            assert sum(one.records for one in buffered) == records
            assert sum(one.bytes for one in buffered) == records * len(b"value" + b"a")

    def teardown(self) -> None:
        """In the end all records that were not removed are handled, once and in order."""
        if not hasattr(self, "lanes"):
            return
        for running in list(self.running):
            self.back(running, len(running.messages))
        while (item := self.start_next()) is not None:
            self.back(item, len(item.messages))
        assert self.lanes.waiting == 0
        handled = [pair for found in self.handled.values() for pair in found]
        assert len(handled) == len(set(handled)) == self.added - self.removed
        for found in self.handled.values():
            self.in_order(found)

    def in_order(self, handled: Iterable[tuple[int, bytes]]) -> None:
        orders: dict[bytes, list[int]] = {}
        for offset, key in handled:
            orders.setdefault(key if self.ordering is Ordering.KEY else b"", []).append(offset)
        if self.ordering is not Ordering.UNORDERED:
            assert all(found == sorted(found) for found in orders.values())


class _ByPartition(_Machine):
    ordering = Ordering.PARTITION


class _ByKey(_Machine):
    ordering = Ordering.KEY


class _Unordered(_Machine):
    ordering = Ordering.UNORDERED


class _InBatches(_Machine):
    """Work items are batches, until a call decides about none of their records."""

    ordering = Ordering.KEY

    def __init__(self) -> None:
        super().__init__()
        self.single: set[tuple[AssignedPartition, int]] = set()

    @initialize(slots=st.integers(1, 3), one_per_key=st.booleans())
    def start(self, slots: int, one_per_key: bool) -> None:  # noqa: FBT001 - drawn
        self.one_per_key = one_per_key
        filling = BatchFilling(BatchSection(records=5, wait=timedelta(0)), one_per_key=one_per_key)
        self.lanes = Lanes(self.ordering, slots, filling=filling, clock=lambda: NOW)

    def may_start(self, assigned: AssignedPartition, taken: list[tuple[int, bytes]]) -> None:
        super().may_start(assigned, taken)
        assert len(taken) <= 5
        assert not self.one_per_key or len({key for _, key in taken}) == len(taken)

    def start_next(self) -> WorkItem | None:
        item = super().start_next()
        if item is not None:
            records = {(item.lane.assigned, message.offset()) for message in item.messages}
            assert item.batch == records.isdisjoint(self.single), (
                "a batch has no record that has to be handled by itself"
            )
            self.single -= records
        return item

    @rule(item=consumes(_Machine.in_flight))
    def decide_about_none(self, item: WorkItem | None) -> None:
        if item is not None and item.batch:
            item.handle_one_by_one()
            self.back(item, 0)

    def back(self, item: WorkItem, position: int) -> None:
        if not item.batch:
            self.single |= {(item.lane.assigned, message.offset()) for message in item.messages[position:]}
        super().back(item, position)

    @precondition(lambda self: any(len(item.messages) > 1 and not item.stop for item in self.running))
    @rule(data=st.data())
    def split(self, data: st.DataObject) -> None:
        before = {item: list(item.messages) for item in self.running if not item.batch}
        super().split(data)
        for item, messages in before.items():
            kept = {message.offset() for message in item.messages}
            started = item.position if item.stop else len(messages)
            rest = [each for each in messages[started + 1 :] if each.offset() not in kept]
            self.single |= {(item.lane.assigned, message.offset()) for message in rest}


_SETTINGS = settings(max_examples=share(40), stateful_step_count=40, deadline=None)
TestAnythingByPartition = _ByPartition.TestCase
TestAnythingByPartition.settings = _SETTINGS
TestAnythingByKey = _ByKey.TestCase
TestAnythingByKey.settings = _SETTINGS
TestAnythingUnordered = _Unordered.TestCase
TestAnythingUnordered.settings = _SETTINGS
TestAnythingInBatches = _InBatches.TestCase
TestAnythingInBatches.settings = _SETTINGS
