"""The buffer is bounded and shared: between partitions, and between first deliveries and redeliveries."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.fetcher import BufferQuota, batch_bytes
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import LimitsSection, Ordering
from kafka_redelivery.transport.clients.message_headers import HEADER_OVERHEAD_BYTES
from kafka_redelivery.transport.protocols import Partition
from tests.examples import share
from tests.unit.consumers.records import ready, record, source

LIMITS = LimitsSection(batch=100, buffer_records=1200, buffer_bytes=2**20)
SOURCE_RECORDS, READY_RECORDS = 900, 300
SOURCE_BYTES = 3 * 2**18


class Buffer:
    """Partitions of a source and of its ready topic, their lanes, and the quota for them."""

    def __init__(self, sources: int, readies: int = 0) -> None:
        self.lanes = Lanes(Ordering.UNORDERED, slots=1)
        self.quota = BufferQuota(LIMITS, self.lanes)
        self.sources = [source(partition=number) for number in range(sources)]
        self.readies = [ready(partition=number) for number in range(readies)]
        self._next = 0
        for assigned in (*self.sources, *self.readies):
            self.lanes.open(assigned)

    def fetch(self, assigned: AssignedPartition, records: int, size: int = 0) -> None:
        """Add fetched records."""
        value = b"x" * size
        self.lanes.add(assigned, [record(self._next + n, value) for n in range(records)])
        self._next += records

    def fill(self, assigned: AssignedPartition, step: int = 1, size: int = 0) -> int:
        """Add records until the partition is paused, and return how many."""
        records = 0
        while assigned.partition not in self.quota.partitions_to_pause(0):
            self.fetch(assigned, step, size)
            records += step
        return records

    def finish(self, records: int) -> None:
        """Handle waiting records."""
        while records > 0 and (item := self.lanes.next_item()) is not None:
            item.position = min(records, len(item.messages))
            records -= item.position
            self.lanes.put_back(item)

    def paused(self, unwritten_bytes: int = 0) -> tuple[list[int], list[int]]:
        """The numbers of the paused partitions of the source and of the ready topic."""
        paused = self.quota.partitions_to_pause(unwritten_bytes)
        return (
            [each.partition.number for each in self.sources if each.partition in paused],
            [each.partition.number for each in self.readies if each.partition in paused],
        )


def test_a_single_partition_gets_two_thirds() -> None:
    """It may buffer twice what is free."""
    buffer = Buffer(1)
    assert buffer.fill(buffer.sources[0]) == SOURCE_RECORDS * 2 // 3


def test_a_backlog_leaves_room_for_other_partitions() -> None:
    """Partitions with few records are not paused."""
    buffer = Buffer(8)
    buffer.fill(buffer.sources[0])
    for each in buffer.sources[1:]:
        buffer.fetch(each, 20)
        assert buffer.paused() == ([0], [])
    assert buffer.fill(buffer.sources[1]) > 50


def test_partitions_that_fill_up_together_get_equal_shares() -> None:
    """Together they use almost the whole buffer."""
    buffer = Buffer(8)
    while len(buffer.paused()[0]) < 8:
        for each in buffer.sources:
            if each.partition.number not in buffer.paused()[0]:
                buffer.fetch(each, 1)
    buffered = [lane.buffered.records for _, lane in buffer.lanes.all()]
    assert max(buffered) - min(buffered) <= 1
    assert SOURCE_RECORDS * 0.9 < sum(buffered) <= SOURCE_RECORDS


def test_sources_and_ready_topics_do_not_pause_each_other() -> None:
    """Each kind has its own share of the buffer."""
    buffer = Buffer(2, 2)
    for each in buffer.sources:
        buffer.fill(each)
    assert buffer.paused() == ([0, 1], [])
    assert buffer.fill(buffer.readies[0]) == READY_RECORDS * 2 // 3

    buffer = Buffer(2, 2)
    for each in buffer.readies:
        buffer.fill(each)
    assert buffer.paused() == ([], [0, 1])
    assert buffer.fill(buffer.sources[0]) == SOURCE_RECORDS * 2 // 3


def test_a_paused_partition_resumes_when_half_of_it_is_handled() -> None:
    """Each pause costs a new fetch, so it must be worth it."""
    buffer = Buffer(1)
    buffered = buffer.fill(buffer.sources[0])
    buffer.finish(buffered // 2 - 1)
    assert buffer.paused() == ([0], [])
    buffer.finish(1)
    assert buffer.paused() == ([], [])


def test_bytes_count_like_records() -> None:
    """A few large records fill the buffer as well."""
    buffer = Buffer(2)
    assert buffer.fill(buffer.sources[0], size=2**14) == SOURCE_BYTES * 2 // 3 // 2**14
    assert buffer.paused() == ([0], [])
    buffer.finish(100)
    assert buffer.paused() == ([], [])


def test_headers_count_like_values() -> None:
    """Their number is unlimited, so each counts what its objects take as well."""
    buffer = Buffer(2)
    large, many = [("trace", b"x" * 2**14)], [("n", None)] * 128
    for number in range(2**6):
        pairs = many if number % 2 else large
        buffer.lanes.add(buffer.sources[0], [record(number, b"", headers=pairs)])
    headers = 2**5 * (5 + 2**14 + HEADER_OVERHEAD_BYTES) + 2**5 * 128 * (1 + HEADER_OVERHEAD_BYTES)
    assert buffer.lanes.buffered(redelivered=False).bytes == headers
    assert buffer.paused() == ([0, 1], [])
    buffer.finish(2**6)
    assert buffer.lanes.buffered(redelivered=False).bytes == 0
    assert buffer.paused() == ([], [])


def test_no_partition_is_looked_at_while_little_is_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is asked in every turn, and there may be hundreds of partitions."""
    buffer, looks = Buffer(300, 300), 0
    everything = buffer.lanes.all

    def counted() -> Iterable[tuple[Partition, Lane]]:
        nonlocal looks
        looks += 1
        return everything()

    monkeypatch.setattr(buffer.lanes, "all", counted)
    buffer.fetch(buffer.sources[0], SOURCE_RECORDS // 2)
    buffer.fetch(buffer.readies[0], READY_RECORDS // 2)
    assert (buffer.paused(), looks) == (([], []), 0)
    buffer.fetch(buffer.sources[0], SOURCE_RECORDS // 4)
    assert (buffer.paused(), looks) == (([0], []), 1)
    buffer.finish(SOURCE_RECORDS + READY_RECORDS)
    assert (buffer.paused(), looks) == (([], []), 2)
    assert (buffer.paused(), looks) == (([], []), 2)


def test_unwritten_batches_count() -> None:
    """They are in memory until the broker has confirmed them."""
    buffer = Buffer(1, 1)
    buffer.fetch(buffer.sources[0], 1, 2**18)
    buffer.fetch(buffer.readies[0], 1, 2**16)
    assert buffer.paused() == ([], [])
    assert buffer.paused(unwritten_bytes=2**20) == ([0], [0])
    assert buffer.paused() == ([0], [0]), "it still buffers as much as when it was paused"
    buffer.finish(2)
    assert buffer.paused() == ([], [])


def test_a_record_larger_than_the_buffer_pauses_its_kind_until_it_is_handled() -> None:
    """The other kind goes on."""
    buffer = Buffer(2, 1)
    buffer.fetch(buffer.sources[0], 1, 2 * LIMITS.buffer_bytes)
    assert buffer.paused() == ([0, 1], [])
    buffer.finish(1)
    assert buffer.paused() == ([], [])


def test_a_fetch_fits_into_the_buffer_and_is_at_least_one_record() -> None:
    """Without fetches the client would lose its membership in the group."""
    buffer = Buffer(1, 1)
    assert buffer.quota.max_records_to_fetch() == LIMITS.batch
    buffer.fetch(buffer.sources[0], SOURCE_RECORDS)
    buffer.fetch(buffer.readies[0], READY_RECORDS - 7)
    assert buffer.quota.max_records_to_fetch() == 7
    buffer.fetch(buffer.readies[0], 10)
    assert buffer.quota.max_records_to_fetch() == 1


def test_two_batches_leave_most_of_the_buffer() -> None:
    """One fills while the other is written."""
    assert batch_bytes(LIMITS) * 8 == LIMITS.buffer_bytes
    assert batch_bytes(LimitsSection(buffer_bytes=2**30)) == 2**24


@settings(deadline=None, max_examples=share(50))
@given(st.data())
def test_the_buffer_is_always_bounded_and_never_stuck(data: st.DataObject) -> None:
    """It exceeds its limits by at most one fetch, and an empty buffer pauses no partition."""
    buffer = Buffer(3, 3)
    in_flight: list[WorkItem] = []
    for _ in range(data.draw(st.integers(1, 20))):
        paused = buffer.quota.partitions_to_pause(0)
        running = [each for each in (*buffer.sources, *buffer.readies) if each.partition not in paused]
        if running:
            assigned = data.draw(st.sampled_from(running))
            records = data.draw(st.integers(1, buffer.quota.max_records_to_fetch()))
            buffer.fetch(assigned, records, data.draw(st.sampled_from([0, 300, 2**15, 2**21])))
        for redelivered, limit in ((False, SOURCE_RECORDS), (True, READY_RECORDS)):
            assert buffer.lanes.buffered(redelivered=redelivered).records < limit + LIMITS.batch
        starts, ends = data.draw(st.booleans()), data.draw(st.booleans())
        if starts and (started := buffer.lanes.next_item()) is not None:
            in_flight.append(started)
        if in_flight and ends:
            item = in_flight.pop()
            item.position = data.draw(st.integers(0, len(item.messages)))
            item.seconds.append(1e-6)
            buffer.lanes.put_back(item)
    for item in in_flight:
        item.position = len(item.messages)
        buffer.lanes.put_back(item)
    buffer.finish(10**6)
    assert buffer.paused() == ([], [])
