"""What a worker holds is bounded, and the room is shared: by partitions, and by fresh records and redeliveries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.lanes import Lanes
from consumers.room import Room, batch_bytes
from consumers.unit import Assigned, Unit
from tests.unit.consumers.records import ready, record, source
from topology.settings import LimitsSection, Ordering

LIMITS = LimitsSection(batch=100, buffer_records=1200, buffer_bytes=2**20)
FRESH, DUE = 900, 300
FRESH_BYTES = 3 * 2**18


class Buffer:
    """Partitions of a source and of its ready topic, their lanes, and the room for them."""

    def __init__(self, sources: int, readies: int = 0) -> None:
        self.lanes = Lanes(Ordering.UNORDERED, slots=1)
        self.room = Room(LIMITS, self.lanes)
        self.sources = [source(partition=number) for number in range(sources)]
        self.readies = [ready(partition=number) for number in range(readies)]
        self._next = 0
        for assigned in (*self.sources, *self.readies):
            self.lanes.open(assigned)

    def fetch(self, assigned: Assigned, records: int, size: int = 0) -> None:
        """So many records arrive."""
        value = b"x" * size
        self.lanes.add(assigned, [record(self._next + n, value) for n in range(records)])
        self._next += records

    def fill(self, assigned: Assigned, step: int = 1, size: int = 0) -> int:
        """Records arrive until they are stopped; how many."""
        records = 0
        while assigned.partition not in self.room.without(0):
            self.fetch(assigned, step, size)
            records += step
        return records

    def finish(self, records: int) -> None:
        """So many of those that wait are handled."""
        while records > 0 and (unit := self.lanes.next_unit()) is not None:
            unit.position = min(records, len(unit.messages))
            records -= unit.position
            self.lanes.put_back(unit)

    def stopped(self, writing_bytes: int = 0) -> tuple[list[int], list[int]]:
        """The numbers of the partitions that are stopped, of the source and of the ready topic."""
        stopped = self.room.without(writing_bytes)
        return (
            [each.partition.number for each in self.sources if each.partition in stopped],
            [each.partition.number for each in self.readies if each.partition in stopped],
        )


def test_a_partition_alone_gets_most_of_the_room() -> None:
    """Two thirds: twice what is left for others."""
    buffer = Buffer(1)
    assert buffer.fill(buffer.sources[0]) == FRESH * 2 // 3


def test_a_backlog_leaves_room_for_the_others() -> None:
    """Those with a trickle are not stopped."""
    buffer = Buffer(8)
    buffer.fill(buffer.sources[0])
    for each in buffer.sources[1:]:
        buffer.fetch(each, 20)
        assert buffer.stopped() == ([0], [])
    assert buffer.fill(buffer.sources[1]) > 50


def test_partitions_that_fill_up_together_get_the_same() -> None:
    """Nearly the whole buffer is in use then."""
    buffer = Buffer(8)
    while len(buffer.stopped()[0]) < 8:
        for each in buffer.sources:
            if each.partition.number not in buffer.stopped()[0]:
                buffer.fetch(each, 1)
    held = [lane.held.records for _, lane in buffer.lanes.all()]
    assert max(held) - min(held) <= 1
    assert FRESH * 0.9 < sum(held) <= FRESH


def test_sources_do_not_stop_redeliveries_nor_the_other_way_round() -> None:
    """Each kind has its own part: a backlog of one does not keep the other from being fetched."""
    buffer = Buffer(2, 2)
    for each in buffer.sources:
        buffer.fill(each)
    assert buffer.stopped() == ([0, 1], [])
    assert buffer.fill(buffer.readies[0]) == DUE * 2 // 3

    buffer = Buffer(2, 2)
    for each in buffer.readies:
        buffer.fill(each)
    assert buffer.stopped() == ([], [0, 1])
    assert buffer.fill(buffer.sources[0]) == FRESH * 2 // 3


def test_what_is_stopped_goes_on_when_half_of_it_is_done() -> None:
    """Each stop costs a new fetch, so it must be worth it."""
    buffer = Buffer(1)
    held = buffer.fill(buffer.sources[0])
    buffer.finish(held // 2 - 1)
    assert buffer.stopped() == ([0], [])
    buffer.finish(1)
    assert buffer.stopped() == ([], [])


def test_bytes_count_like_records() -> None:
    """A few large records fill the buffer as well."""
    buffer = Buffer(2)
    assert buffer.fill(buffer.sources[0], size=2**14) == FRESH_BYTES * 2 // 3 // 2**14
    assert buffer.stopped() == ([0], [])
    buffer.finish(100)
    assert buffer.stopped() == ([], [])


def test_what_is_being_written_counts() -> None:
    """It is in memory until the broker has it."""
    buffer = Buffer(1, 1)
    buffer.fetch(buffer.sources[0], 1, 2**18)
    buffer.fetch(buffer.readies[0], 1, 2**16)
    assert buffer.stopped() == ([], [])
    assert buffer.stopped(writing_bytes=2**20) == ([0], [0])
    assert buffer.stopped() == ([0], [0]), "it holds what it held"
    buffer.finish(2)
    assert buffer.stopped() == ([], [])


def test_a_record_larger_than_everything_stops_nothing_for_good() -> None:
    """Its own kind waits until it is done, the other goes on."""
    buffer = Buffer(2, 1)
    buffer.fetch(buffer.sources[0], 1, 2 * LIMITS.buffer_bytes)
    assert buffer.stopped() == ([0, 1], [])
    buffer.finish(1)
    assert buffer.stopped() == ([], [])


def test_a_fetch_fits_into_the_room_and_is_never_nothing() -> None:
    """A fetch of nothing would not keep up the membership in the group."""
    buffer = Buffer(1, 1)
    assert buffer.room.next_fetch() == LIMITS.batch
    buffer.fetch(buffer.sources[0], FRESH)
    buffer.fetch(buffer.readies[0], DUE - 7)
    assert buffer.room.next_fetch() == 7
    buffer.fetch(buffer.readies[0], 10)
    assert buffer.room.next_fetch() == 1


def test_two_batches_leave_most_of_the_buffer() -> None:
    """One grows while the other is written."""
    assert batch_bytes(LIMITS) * 8 == LIMITS.buffer_bytes
    assert batch_bytes(LimitsSection(buffer_bytes=2**30)) == 2**24


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_whatever_happens_the_room_is_bounded_and_never_locked(data: st.DataObject) -> None:
    """At most one fetch above the limits; and when nothing is held, nothing is stopped."""
    buffer = Buffer(3, 3)
    under_way: list[Unit] = []
    for _ in range(data.draw(st.integers(1, 20))):
        stopped = buffer.room.without(0)
        going = [each for each in (*buffer.sources, *buffer.readies) if each.partition not in stopped]
        if going:
            assigned = data.draw(st.sampled_from(going))
            records = data.draw(st.integers(1, buffer.room.next_fetch()))
            buffer.fetch(assigned, records, data.draw(st.sampled_from([0, 300, 2**15, 2**21])))
        for redelivered, limit in ((False, FRESH), (True, DUE)):
            assert buffer.lanes.held(redelivered=redelivered).records < limit + LIMITS.batch
        begins, ends = data.draw(st.booleans()), data.draw(st.booleans())
        if begins and (begun := buffer.lanes.next_unit()) is not None:
            under_way.append(begun)
        if under_way and ends:
            unit = under_way.pop()
            unit.position = data.draw(st.integers(0, len(unit.messages)))
            unit.seconds.append(1e-6)
            buffer.lanes.put_back(unit)
    for unit in under_way:
        unit.position = len(unit.messages)
        buffer.lanes.put_back(unit)
    buffer.finish(10**6)
    assert buffer.stopped() == ([], [])
