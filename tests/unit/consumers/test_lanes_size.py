"""How large units are and how many stand in line, by what calls take; and that what is held is counted exactly."""

import pytest

from consumers.lane import Held
from consumers.lanes import LONGEST_UNIT, UNIT_S, Lanes
from tests.unit.consumers.lining import all_units, called, cheap, finish, offsets, opened
from tests.unit.consumers.records import record
from topology.settings import Ordering


class TestSize:
    """Cheap handlers get many records at once, slow ones a single one."""

    @pytest.mark.parametrize("ordering", Ordering)
    def test_the_first_record_goes_alone(self, ordering: Ordering) -> None:
        """Nothing is known of the handler yet."""
        lanes = Lanes(ordering, slots=1)
        lanes.add(opened(lanes), [record(offset, key=b"%d" % offset) for offset in range(1000)])
        assert offsets(lanes.next_unit()) == [0]

    @pytest.mark.parametrize("ordering", [Ordering.KEY, Ordering.UNORDERED])
    def test_a_slow_call_holds_nobody_up(self, ordering: Ordering) -> None:
        """Each record has a slot of its own."""
        lanes = Lanes(ordering, slots=4)
        called(lanes, UNIT_S)
        lanes.add(opened(lanes), [record(offset, key=b"%d" % offset) for offset in range(1000)])
        assert [offsets(lanes.next_unit()) for _ in range(5)] == [[0], [1], [2], [3], [4]]

    @pytest.mark.parametrize("ordering", Ordering)
    def test_a_unit_takes_about_so_long(self, ordering: Ordering) -> None:
        """Whatever a call takes."""
        lanes = Lanes(ordering, slots=1)
        called(lanes, UNIT_S / 10.5)
        lanes.add(opened(lanes), [record(offset, key=b"%d" % offset) for offset in range(1000)])
        assert len(offsets(lanes.next_unit())) == 10

    def test_a_handler_that_becomes_slow_gets_smaller_units(self) -> None:
        """And larger ones again, when it is fast again."""
        lanes = cheap(Ordering.UNORDERED, slots=1)
        lanes.add(opened(lanes), [record(offset) for offset in range(2000)])
        sizes = []
        for seconds in [0.1, *[1e-6] * 40]:
            unit = lanes.next_unit()
            assert unit is not None
            sizes.append(len(unit.messages))
            unit.seconds.append(seconds)
            finish(lanes, unit, position=1)
        assert (sizes[0], sizes[1], sizes[-1]) == (LONGEST_UNIT, 1, LONGEST_UNIT)

    @pytest.mark.parametrize(("call_s", "in_line"), [(1e-6, 64), (0.1, 64), (0.4, 16), (60.0, 0)])
    def test_slow_calls_need_nobody_in_line(self, call_s: float, in_line: int) -> None:
        """A redelivery would have to wait for whoever stands there."""
        lanes = Lanes(Ordering.KEY, slots=64)
        called(lanes, call_s)
        assert lanes.in_line == in_line


class TestHeld:
    """What waits or is under way is counted exactly, by partition and as a whole."""

    @pytest.mark.parametrize("ordering", Ordering)
    def test_from_the_fetch_to_the_outcome(self, ordering: Ordering) -> None:
        """Values and keys; a tombstone and a record without a key weigh nothing."""
        lanes = cheap(ordering, slots=1)
        assigned = opened(lanes)
        some = [record(0, b"x" * 100, key=b"abc"), record(1, None), record(2, b"", key=b"d"), record(3, b"y" * 7)]
        lanes.add(assigned, list(some))
        assert lanes.held(redelivered=False) == Held(4, 111)
        assert lanes.held(redelivered=True) == Held(0, 0)
        assert dict(lanes.all())[assigned.partition].held == Held(4, 111)
        for unit in all_units(lanes):
            assert lanes.held(redelivered=False).records > 0
            finish(lanes, unit)
        while units := all_units(lanes):
            for unit in units:
                finish(lanes, unit)
        assert lanes.held(redelivered=False) == Held(0, 0)

    def test_what_is_handled_is_told(self) -> None:
        """For the batch that it goes into."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        lanes.add(opened(lanes), [record(0, b"x" * 100), record(1, b"x" * 10)])
        unit = lanes.next_unit()
        assert unit is not None
        finish(lanes, unit, position=1)
        assert unit.bytes == 100
        assert lanes.held(redelivered=False) == Held(1, 10)

    def test_what_leaves_is_held_until_its_slot_gives_it_back(self) -> None:
        """The handler has it in its hands."""
        lanes = cheap(Ordering.PARTITION, slots=1)
        assigned = opened(lanes)
        lanes.add(assigned, [record(offset, b"x") for offset in range(LONGEST_UNIT + 5)])
        unit = lanes.next_unit()
        assert unit is not None
        lanes.close(assigned)
        assert lanes.held(redelivered=False) == Held(LONGEST_UNIT, LONGEST_UNIT)
        finish(lanes, unit, position=1)
        assert lanes.held(redelivered=False) == Held(0, 0)
