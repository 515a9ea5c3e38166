"""Large records in many partitions: what leaves last is dropped and fetched again, so the buffer keeps its limit."""

from collections.abc import Iterable

from kafka_redelivery.consumers.scheduler.full_buffer import FullBuffer
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import StoredOffsets
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers

HOUR = 3_600_000
LIMITS = LimitsSection(buffer_bytes=2_000_000)
"""A scheduler buffers 1,000,000 of them."""


class Buffer:
    """A buffer with ten partitions of a tier of an hour."""

    def __init__(self) -> None:
        self.reader = StoredOffsets({})
        self.full = FullBuffer(self.reader, LIMITS)
        self.halted: set[Partition] = set()
        self.stopped: set[Partition] = set()
        self.busy: set[Partition] = set()
        self.wanted: list[Partition] = []
        self.tiers: dict[Partition, TierPartition] = {}
        for number in range(10):
            self.rewind([Partition("billing.retry.1h", number)])

    def rewind(self, partitions: Iterable[Partition]) -> None:
        """Open partitions without records."""
        for partition in partitions:
            before = self.tiers.get(partition)
            self.tiers[partition] = TierPartition(partition.topic, HOUR, Progress(0), ordered=True, before=before)

    def add(self, number: int, size: int, leaves_ms: int) -> None:
        """Buffer a record."""
        tier = self.tiers[self.name(number)]
        headers = waiting_headers(lineage(), due_ms=leaves_ms, delay_ms=HOUR)
        message = Fetched(tier.topic, number, tier.progress.next_offset, None, b"", headers, leaves_ms - HOUR)
        assert tier.add([message], [size], NOW) is None

    def name(self, number: int) -> Partition:
        """The partition with this number."""
        return Partition("billing.retry.1h", number)

    def pause(self, now_ms: int = NOW) -> list[int]:
        """One turn; returns the numbers of the partitions whose records were dropped."""
        dropped = self.full.pause(self.tiers, self.halted, self.stopped, self.busy, now_ms, self.wanted)
        self.rewind(dropped)
        return sorted(partition.number for partition in dropped)

    @property
    def paused(self) -> list[int]:
        """The numbers of the partitions that are not fetched."""
        return sorted(partition.number for partition in self.reader.paused)

    @property
    def bytes(self) -> int:
        """What is buffered."""
        return sum(tier.bytes for tier in self.tiers.values())


def crowded() -> Buffer:
    """Ten records of 200,000 bytes; partition *n* has one that leaves in *n* + 1 minutes."""
    buffer = Buffer()
    for number in range(10):
        buffer.add(number, 200_000, NOW + 60_000 * (number + 1))
    return buffer


def test_what_leaves_last_is_dropped_until_half_is_free() -> None:
    """Ten partitions with one record each would hold twice the limit."""
    buffer = crowded()
    assert buffer.pause() == [2, 3, 4, 5, 6, 7, 8, 9]
    assert buffer.bytes == 400_000
    assert set(buffer.paused) >= {2, 3, 4, 5, 6, 7, 8, 9}


def test_what_leaves_within_two_seconds_is_not_dropped() -> None:
    """It is needed before a fetch pays off."""
    for leaves_in_ms, dropped in ((2999, []), (3000, []), (3001, [0])):
        buffer = Buffer()
        buffer.add(0, 1_200_000, NOW + leaves_in_ms)
        assert buffer.pause(NOW + 1000) == dropped


def test_a_dropped_partition_is_fetched_a_second_before_its_first_record_leaves() -> None:
    """Not sooner, since there is nothing to do with it, and not later."""
    buffer = crowded()
    buffer.pause()
    leaves_ms = NOW + 180_000
    buffer.rewind([buffer.name(0), buffer.name(1)])
    assert buffer.pause(leaves_ms - 1001) == []
    assert buffer.paused == [2, 3, 4, 5, 6, 7, 8, 9]
    assert buffer.pause(leaves_ms - 1000) == []
    assert buffer.paused == [3, 4, 5, 6, 7, 8, 9]


def test_nothing_is_fetched_while_what_leaves_soon_exceeds_the_limit_by_half() -> None:
    """Every partition is overdue, as after an outage. Fetching goes on when a part has left."""
    buffer = Buffer()
    for number in range(6):
        buffer.add(number, 300_000, NOW - 1)
    assert buffer.pause() == []
    assert buffer.paused == list(range(10))
    for number in range(4):
        buffer.tiers[buffer.name(number)].take(NOW, 1)
    assert buffer.pause() == []
    assert set(buffer.paused).isdisjoint(range(4))
    assert set(buffer.paused).isdisjoint(range(6, 10))


def test_a_tail_that_waits_does_not_keep_others_from_being_fetched() -> None:
    """The first record of partition 0 leaves soon, the others of it in an hour: nothing else may wait for that."""
    buffer = Buffer()
    buffer.add(0, 600_000, NOW)
    buffer.add(0, 600_000, NOW + HOUR - 1)
    assert buffer.pause() == []
    assert buffer.paused == [0]


def test_some_partitions_are_never_dropped() -> None:
    """Halted ones release what they have; the next offset of others is being written; the time of others changes."""
    buffer = crowded()
    buffer.halted, buffer.busy = {buffer.name(9)}, {buffer.name(8)}
    buffer.tiers[buffer.name(7)].trusted = False
    assert buffer.pause() == [0, 1, 2, 3, 4, 5, 6]


def test_paused_partitions_are_dropped_first_and_do_not_stop_the_others() -> None:
    """Their records leave when an operator says so. Then they are fetched, whatever they waited for."""
    buffer = Buffer()
    for number in range(6):
        buffer.add(number, 300_000, NOW - 1)
    buffer.stopped = {buffer.name(number) for number in range(3)}
    assert buffer.pause() == [0, 1, 2]
    assert set(buffer.paused).isdisjoint(range(6, 10))
    buffer.stopped = set()
    buffer.pause(NOW + 1)
    assert set(buffer.paused).isdisjoint(range(3))
    assert buffer.pause(NOW + 2) == []


def test_a_postponed_partition_is_fetched_and_kept_while_an_operator_wants_records_of_it() -> None:
    """Its records would leave in minutes, and others are dropped for them."""
    buffer = crowded()
    buffer.pause()
    buffer.wanted = [buffer.name(9)]
    assert buffer.pause() == []
    assert buffer.paused == [2, 3, 4, 5, 6, 7, 8]
    buffer.add(9, 700_000, NOW + 600_000)
    assert buffer.pause() == [0, 1]
    assert buffer.pause() == []
    buffer.wanted = []
    buffer.add(0, 400_000, NOW + 60_000)
    assert buffer.pause() == [9]


def test_wanted_partitions_are_fetched_one_after_the_other() -> None:
    """Each may hold a batch of large records."""
    buffer = crowded()
    buffer.pause()
    buffer.wanted = [buffer.name(9), buffer.name(8)]
    buffer.pause()
    buffer.add(9, 700_000, NOW + 600_000)
    buffer.pause()
    assert 8 in buffer.paused
    buffer.tiers[buffer.name(9)].take_apart([0])
    buffer.pause()
    assert 8 not in buffer.paused


def test_a_wanted_partition_whose_request_does_not_get_on_gives_way_to_the_next() -> None:
    """It may have no space in the metadata of its commit, or a write that Kafka refuses. Later it has another turn."""
    buffer = crowded()
    buffer.pause()
    buffer.wanted = [buffer.name(9), buffer.name(8), buffer.name(7)]
    order = []
    for turn in range(4):
        now_ms = NOW + turn * 10_000
        buffer.pause(now_ms)
        [fetched] = {7, 8, 9} - set(buffer.paused)
        order.append(fetched)
        buffer.add(fetched, 700_000, NOW + 600_000)
        buffer.pause(now_ms + 9_999)
        assert buffer.bytes == 700_000
    assert order == [9, 8, 7, 9]


def test_others_are_postponed_for_a_wanted_partition() -> None:
    """They are within the limit, but would leave no room for hours."""
    buffer = Buffer()
    for number in range(4):
        buffer.add(number, 200_000, NOW + HOUR - 100 + number)
    buffer.tiers[buffer.name(9)].fetch_at_ms = NOW + HOUR
    assert buffer.pause() == []
    assert 9 in buffer.paused
    buffer.wanted = [buffer.name(9)]
    assert buffer.pause() == [2, 3]
    assert 9 not in buffer.paused


def test_a_wanted_partition_that_is_halted_or_paused_takes_no_room() -> None:
    """Nothing could be done about its records."""
    buffer = crowded()
    buffer.pause()
    buffer.wanted = [buffer.name(9), buffer.name(8)]
    buffer.halted, buffer.stopped = {buffer.name(9)}, {buffer.name(8)}
    assert buffer.pause() == []
    assert buffer.tiers[buffer.name(9)].fetch_at_ms > NOW
    assert buffer.tiers[buffer.name(8)].fetch_at_ms > NOW


def test_a_clock_that_is_set_back_ends_all_waits() -> None:
    """The times are those of the old clock."""
    buffer = crowded()
    buffer.pause()
    for tier in buffer.tiers.values():
        tier.clock_set_back(NOW - HOUR)
    buffer.rewind([buffer.name(0), buffer.name(1)])
    buffer.pause(NOW - HOUR)
    assert buffer.paused == []


def test_a_partition_that_was_given_up_is_forgotten() -> None:
    """It may come back with other records."""
    buffer = crowded()
    buffer.pause()
    del buffer.tiers[buffer.name(5)]
    buffer.rewind([buffer.name(5)])
    buffer.pause()
    assert 5 not in buffer.paused
    assert 6 in buffer.paused


def test_small_records_are_not_dropped() -> None:
    """Full partitions wait until half of them has left, as long as the buffer keeps its limit."""
    buffer = Buffer()
    for _ in range(81):
        buffer.add(0, 10_000, NOW + HOUR - 1)
    assert buffer.pause() == []
    assert buffer.paused == [0]
