"""Which records may be handled at the same time: order is kept where it is promised, and nothing is lost."""

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from consumers.lane import Held
from consumers.lanes import LONGEST_UNIT, UNIT_S, Lanes
from consumers.unit import Assigned, Unit
from tests.unit.consumers.lining import all_units, cheap, finish, keyed, offsets, opened
from tests.unit.consumers.records import ready, record, source
from topology.settings import Ordering


def keys(unit: Unit) -> set[bytes | None]:
    """The keys in a unit."""
    return {message.key() for message in unit.messages}


class TestByPartition:
    """The promise of Kafka: one after the other."""

    def test_one_unit_of_a_partition_is_under_way_at_a_time(self) -> None:
        """Whatever arrives meanwhile waits for it."""
        lanes = cheap(Ordering.PARTITION, slots=4)
        assigned = opened(lanes)
        keyed(lanes, assigned, "abc")
        [first] = all_units(lanes)
        keyed(lanes, assigned, "de", first=3)
        assert lanes.next_unit() is None
        finish(lanes, first)
        assert offsets(lanes.next_unit()) == [3, 4]

    def test_partitions_go_side_by_side(self) -> None:
        """The order of one is nothing to another."""
        lanes = cheap(Ordering.PARTITION, slots=4)
        for partition in range(3):
            keyed(lanes, opened(lanes, partition), "ab")
        assert sorted(unit.lane.assigned.partition.number for unit in all_units(lanes)) == [0, 1, 2]

    def test_what_a_slot_did_not_get_to_comes_first_again(self) -> None:
        """Before everything that arrived meanwhile."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        assigned = opened(lanes)
        keyed(lanes, assigned, "abcd")
        [first] = all_units(lanes)
        keyed(lanes, assigned, "ef", first=4)
        finish(lanes, first, position=1)
        assert lanes.waiting == 5
        assert offsets(lanes.next_unit()) == [1, 2, 3, 4, 5]

    def test_partitions_take_turns(self) -> None:
        """One that never runs dry does not keep the others from a slot."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        busy, quiet = opened(lanes, 0), opened(lanes, 1)
        keyed(lanes, busy, "ab")
        first = lanes.next_unit()
        assert first is not None
        keyed(lanes, quiet, "c")
        keyed(lanes, busy, "d", first=2)
        finish(lanes, first, position=1)
        turn = lanes.next_unit()
        assert turn is not None
        assert turn.lane.assigned is quiet

    def test_a_unit_is_no_longer_than_it_may_be(self) -> None:
        """A commit must not have to wait for thousands of calls."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        lanes.add(opened(lanes), [record(offset) for offset in range(LONGEST_UNIT + 1)])
        assert offsets(lanes.next_unit()) == list(range(LONGEST_UNIT))
        assert lanes.waiting == 1


class TestByKey:
    """Records of one key one after the other; others may overtake."""

    def test_a_key_is_never_in_two_units_at_once(self) -> None:
        """However many slots are free."""
        lanes = cheap(Ordering.KEY, slots=8)
        keyed(lanes, opened(lanes), "abcdefgh" * 4)
        units = all_units(lanes)
        together = [keys(unit) for unit in units]
        assert len(units) > 1
        assert sum(map(len, together)) == len(set().union(*together))

    def test_a_key_keeps_its_order(self) -> None:
        """Over all the units it is spread over."""
        lanes = cheap(Ordering.KEY, slots=3)
        keyed(lanes, opened(lanes), "abcab" * 20)
        handled: dict[bytes | None, list[int]] = {}
        while units := all_units(lanes):
            for unit in reversed(units):
                for message in unit.messages:
                    handled.setdefault(message.key(), []).append(message.offset())
                finish(lanes, unit)
        assert {key: len(found) for key, found in handled.items()} == {b"a": 40, b"b": 40, b"c": 20}
        assert all(found == sorted(found) for found in handled.values())

    def test_without_a_key_the_partition_is_the_order(self) -> None:
        """Records without a key are like records with the same one."""
        lanes = cheap(Ordering.KEY, slots=4)
        lanes.add(opened(lanes), [record(offset) for offset in range(8)])
        assert len(all_units(lanes)) == 1

    def test_the_same_key_in_two_partitions_is_two_orders(self) -> None:
        """Kafka promises nothing across partitions."""
        lanes = cheap(Ordering.KEY, slots=4)
        for partition in range(2):
            keyed(lanes, opened(lanes, partition), "a")
        assert len(all_units(lanes)) == 2


class TestUnordered:
    """As much at once as there are slots."""

    def test_units_of_one_partition_overlap(self) -> None:
        """Nobody waits for anybody, not even within a key."""
        lanes = cheap(Ordering.UNORDERED, slots=2)
        keyed(lanes, opened(lanes), "aaaa")
        units = all_units(lanes)
        assert len(units) == 4
        assert sorted(offset for unit in units for offset in offsets(unit)) == [0, 1, 2, 3]

    def test_a_backlog_is_shared_out_between_the_slots(self) -> None:
        """No slot takes so much that another goes idle."""
        lanes = cheap(Ordering.UNORDERED, slots=4)
        lanes.add(opened(lanes), [record(offset) for offset in range(80)])
        first = lanes.next_unit()
        assert len(offsets(first)) == 80 // 8


class TestClose:
    @pytest.mark.parametrize("ordering", Ordering)
    def test_what_waits_is_forgotten(self, ordering: Ordering) -> None:
        """It belongs to somebody else now."""
        lanes = cheap(ordering, slots=4)
        leaving, staying = opened(lanes, 0), opened(lanes, 1)
        keyed(lanes, leaving, "abcdef")
        keyed(lanes, staying, "xy")
        lanes.close(leaving)
        assert lanes.waiting == 2
        assert {unit.lane.assigned.partition.number for unit in all_units(lanes)} == {1}

    @pytest.mark.parametrize("ordering", Ordering)
    def test_what_comes_back_for_it_waits_no_more(self, ordering: Ordering) -> None:
        """A slot that was under way gives its rest back to nobody."""
        lanes = cheap(ordering, slots=1)
        leaving = opened(lanes)
        keyed(lanes, leaving, "aaa")
        unit = lanes.next_unit()
        assert unit is not None
        lanes.close(leaving)
        leaving.closed = True
        finish(lanes, unit, position=0)
        assert lanes.waiting == 0
        assert lanes.next_unit() is None

    def test_a_partition_that_comes_back_starts_anew(self) -> None:
        """Its old unit, still under way, holds nothing up and puts nothing in."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        before = opened(lanes)
        keyed(lanes, before, "ab")
        old = lanes.next_unit()
        assert old is not None
        lanes.close(before)
        before.closed = True
        again = opened(lanes)
        keyed(lanes, again, "ab")
        new = lanes.next_unit()
        assert new is not None
        assert new.lane.assigned is again
        finish(lanes, old, position=0)
        assert lanes.waiting == 0


@pytest.mark.parametrize("ordering", list(Ordering))
def test_a_closed_partition_leaves_nothing_in_the_books(ordering: Ordering) -> None:
    """Neither of what waited for a slot nor of what waited for a note."""
    lanes = Lanes(ordering, 2, noting=True)
    assigned = opened(lanes)
    keyed(lanes, assigned, "abcd")
    lanes.release(assigned, 2)
    assert lanes.waiting == 2
    lanes.close(assigned)
    assert lanes.waiting == 0
    assert lanes.held(redelivered=False) == Held()


def test_an_abandoned_unit_frees_its_lane_through_its_fork() -> None:
    """A handler that never returns keeps its slot, not its partition."""
    lanes = cheap(Ordering.PARTITION, slots=2)
    keyed(lanes, opened(lanes), "abc")
    stuck = lanes.next_unit()
    assert stuck is not None
    stuck.started_s = 1.0
    late = stuck.abandon(2.0)
    assert late is not None
    finish(lanes, late, position=1)
    assert offsets(lanes.next_unit()) == [1, 2]


class _Machine(RuleBasedStateMachine):
    """Any sequence of what a worker does with its lanes, beside the plainest model of it."""

    ordering: Ordering
    open_ = Bundle("open_")
    under_way = Bundle("under_way")

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[Assigned, list[tuple[int, bytes]]] = {}
        self.running: dict[Unit, list[tuple[int, bytes]]] = {}
        self.handled: dict[Assigned, list[tuple[int, bytes]]] = {}
        self.added = 0
        self.forgotten = 0

    @initialize(slots=st.integers(1, 3))
    def start(self, slots: int) -> None:
        self.lanes = cheap(self.ordering, slots)

    @rule(target=open_, redelivered=st.booleans())
    def open_partition(self, redelivered: bool) -> Assigned:  # noqa: FBT001 - drawn
        assigned = (ready if redelivered else source)(partition=len(self.handled))
        self.lanes.open(assigned)
        self.waiting[assigned], self.handled[assigned] = [], []
        return assigned

    @rule(assigned=open_, drawn=st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=24))
    def add(self, assigned: Assigned, drawn: list[bytes]) -> None:
        new = [(self.added + n, key) for n, key in enumerate(drawn)]
        self.added += len(new)
        self.lanes.add(assigned, [record(offset, key=key) for offset, key in new])
        self.waiting[assigned] += new

    @rule(target=under_way)
    def next_unit(self) -> Unit | None:
        return self.begin()

    def begin(self) -> Unit | None:
        unit = self.lanes.next_unit()
        if unit is None:
            self.nothing_could_start()
            return None
        assigned = unit.lane.assigned
        taken = [(message.offset(), message.key() or b"") for message in unit.messages]
        assert taken
        self.may_start(assigned, taken)
        for pair in taken:
            self.waiting[assigned].remove(pair)
        self.running[unit] = taken
        return unit

    def may_start(self, assigned: Assigned, taken: list[tuple[int, bytes]]) -> None:
        waiting = self.waiting[assigned]
        beside = [pair for unit, pairs in self.running.items() if unit.lane.assigned is assigned for pair in pairs]
        if self.ordering is Ordering.PARTITION:
            assert not beside
            assert taken == waiting[: len(taken)]
        if self.ordering is Ordering.KEY:
            assert not {key for _, key in taken} & {key for _, key in beside}
            for key in {key for _, key in taken}:
                mine = [pair for pair in taken if pair[1] == key]
                assert mine == [pair for pair in waiting if pair[1] == key][: len(mine)]

    def nothing_could_start(self) -> None:
        busy = {(unit.lane.assigned, key) for unit, pairs in self.running.items() for _, key in pairs}
        partitions = {assigned for assigned, _ in busy}
        for assigned, waiting in self.waiting.items():
            if self.ordering is Ordering.KEY:
                assert all((assigned, key) in busy for _, key in waiting), "a key waits for nobody but itself"
            elif self.ordering is Ordering.UNORDERED or assigned not in partitions:
                assert not waiting

    @rule(unit=consumes(under_way), data=st.data())
    def put_back(self, unit: Unit | None, data: st.DataObject) -> None:
        if unit is not None:
            unit.seconds.append(data.draw(st.sampled_from([1e-6, UNIT_S / 3])))
            self.back(unit, data.draw(st.integers(unit.taken, len(unit.messages))))

    @precondition(lambda self: any(len(unit.messages) > 1 and not unit.stop for unit in self.running))
    @rule(data=st.data())
    def split(self, data: st.DataObject) -> None:
        unit = data.draw(st.sampled_from([unit for unit in self.running if len(unit.messages) > 1 and not unit.stop]))
        unit.position = data.draw(st.integers(0, len(unit.messages) - 1))
        unit.started_s = 1.0
        done = self.lanes.split(unit, 2.0)
        assigned, taken = unit.lane.assigned, self.running[unit]
        if done is None:
            unit.position = 0
            return
        assert assigned in self.waiting
        assert [message.offset() for message in done.messages] == [offset for offset, _ in taken[: done.position]]
        self.handled[assigned] += taken[: done.position]
        self.waiting[assigned] = sorted(taken[done.position + 1 :] + self.waiting[assigned])
        self.running[unit] = [taken[done.position]]

    def back(self, unit: Unit, position: int) -> None:
        unit.position = position
        left = unit.without_taken()
        self.lanes.put_back(left)
        position = left.position
        taken = self.running.pop(unit)
        assigned = unit.lane.assigned
        if assigned in self.waiting:
            self.handled[assigned] += taken[:position]
            self.waiting[assigned] = sorted(taken[position:] + self.waiting[assigned])
        else:
            self.forgotten += len(taken)

    @rule(assigned=consumes(open_))
    def close(self, assigned: Assigned) -> None:
        self.lanes.close(assigned)
        assigned.closed = True
        self.forgotten += len(self.waiting.pop(assigned))

    @invariant()
    def waiting_is_counted(self) -> None:
        if hasattr(self, "lanes"):
            waiting = sum(map(len, self.waiting.values()))
            assert self.lanes.waiting == waiting
            held = [self.lanes.held(redelivered=redelivered) for redelivered in (False, True)]
            records = waiting + sum(map(len, self.running.values()))
            assert sum(one.records for one in held) == records
            assert sum(one.bytes for one in held) == records * len(b"value" + b"a")

    def teardown(self) -> None:
        """Whatever happened, everything that is not forgotten is handled in the end, once and in order."""
        if not hasattr(self, "lanes"):
            return
        for running in list(self.running):
            self.back(running, len(running.messages))
        while (unit := self.begin()) is not None:
            self.back(unit, len(unit.messages))
        assert self.lanes.waiting == 0
        handled = [pair for found in self.handled.values() for pair in found]
        assert len(handled) == len(set(handled)) == self.added - self.forgotten
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


_SETTINGS = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestAnythingByPartition = _ByPartition.TestCase
TestAnythingByPartition.settings = _SETTINGS
TestAnythingByKey = _ByKey.TestCase
TestAnythingByKey.settings = _SETTINGS
TestAnythingUnordered = _Unordered.TestCase
TestAnythingUnordered.settings = _SETTINGS
