"""A scheduler's buffer: busy partitions share it, and none that waits for long keeps another from being read."""

import pytest

from kafka_redelivery.consumers.scheduler.full_buffer import full_partitions, write_bytes
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers

TOPIC = "billing.retry.1s"
LIMITS = LimitsSection(buffer_records=2000)
"""A scheduler buffers 1,000 of them."""


def buffered(partitions: int, records: dict[int, int], size: int = 10) -> dict[Partition, TierPartition]:
    """Partitions of a tier, some of which buffer records."""
    tiers = {
        Partition(TOPIC, number): TierPartition(TOPIC, 1000, Progress(0), ordered=True) for number in range(partitions)
    }
    headers = waiting_headers(lineage())
    for number, count in records.items():
        for offset in range(count):
            message = Fetched(TOPIC, number, offset, None, b"", headers, NOW)
            tiers[Partition(TOPIC, number)].add([message], [size], NOW)
    return tiers


def full(
    tiers: dict[Partition, TierPartition], limits: LimitsSection = LIMITS, *, paused: int | None = None
) -> set[int]:
    """The numbers of the partitions that must not be read."""
    before = [] if paused is None else [Partition(TOPIC, paused)]
    return {partition.number for partition in full_partitions(tiers, before, limits)}


def test_few_busy_partitions_among_many() -> None:
    """They get most of the buffer, not the 3 records that an equal share of 300 would be."""
    assert full(buffered(300, dict.fromkeys(range(8), 100))) == set()
    assert full(buffered(300, dict.fromkeys(range(8), 122))) == set(range(8))


def test_one_alone_gets_four_fifths() -> None:
    """The rest is kept for a second one."""
    assert full(buffered(300, {7: 799})) == set()
    assert full(buffered(300, {7: 800})) == {7}


@pytest.mark.parametrize("records", [1000, 6000])
def test_a_full_buffer_leaves_room_for_the_others(records: int) -> None:
    """Half of an equal share: what fills the buffer may wait for a day, and what comes elsewhere for a second."""
    assert full(buffered(10, {0: records, 1: 49})) == {0}
    assert full(buffered(10, {0: records, 1: 50})) == {0, 1}
    assert full(buffered(5000, {0: records})) == {0}


def test_bytes_are_shared_in_the_same_way() -> None:
    """Records of 1,000 bytes in a buffer of 1,000,000."""
    limits = LimitsSection(buffer_bytes=2_000_000)
    assert full(buffered(300, {7: 799}, 1000), limits) == set()
    assert full(buffered(300, {7: 800}, 1000), limits) == {7}
    assert full(buffered(10, {0: 1001, 1: 49}, 1000), limits) == {0}
    assert full(buffered(10, {0: 1001, 1: 50}, 1000), limits) == {0, 1}


def test_a_full_partition_is_read_again_when_half_is_free() -> None:
    """Each pause costs a fetch."""
    assert full(buffered(300, {7: 700}), paused=7) == {7}
    assert full(buffered(300, {7: 660}), paused=7) == set()


@pytest.mark.parametrize(("buffer_bytes", "expected"), [(2**20, 2**18), (2**26, 2**24), (2**30, 2**24)])
def test_a_write_is_a_quarter_of_the_buffer(buffer_bytes: int, expected: int) -> None:
    """At most 16 MiB, as a worker's."""
    assert write_bytes(LimitsSection(buffer_bytes=buffer_bytes)) == expected
