"""How many records of each tier partition a scheduler buffers, and how large its writes are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.transport.protocols import Partition

_BUFFER_DIVISOR = 2
"""A scheduler buffers half as much as a worker: only records that leave soon need to be in memory."""

_MAX_MULTIPLE_OF_FREE = 4
"""A partition may buffer four times as much as is free: one alone gets 4/5 of the buffer, each of eight gets 4/33."""

_RESERVED_DIVISOR = 2
"""Half of an equal share is always free to a partition, however much the others buffer: theirs may wait for hours."""

_WRITE_DIVISOR = 4
_MAX_WRITE_BYTES = 16 * 2**20


def buffer_bytes(limits: LimitsSection) -> int:
    """Return how many bytes a scheduler may buffer."""
    return limits.buffer_bytes // _BUFFER_DIVISOR


def write_bytes(limits: LimitsSection) -> int:
    """Return how many bytes make a write full. They come on top of the buffer: until it ends, others are fetched."""
    return min(_MAX_WRITE_BYTES, limits.buffer_bytes // _WRITE_DIVISOR)


def full_partitions(
    tiers: Mapping[Partition, TierPartition], paused: Collection[Partition], limits: LimitsSection
) -> set[Partition]:
    """Return the partitions whose buffer is full, or was full and is not half empty yet.

    The first records after a resume need a fetch to arrive, so a resume comes before the buffer is empty.
    """
    records, size = limits.buffer_records // _BUFFER_DIVISOR, buffer_bytes(limits)
    reserved = _RESERVED_DIVISOR * max(1, len(tiers))
    buffered, buffered_bytes = sum(map(len, tiers.values())), sum(tier.bytes for tier in tiers.values())
    max_records = max(1, records // reserved, _MAX_MULTIPLE_OF_FREE * (records - buffered))
    max_bytes = max(1, size // reserved, _MAX_MULTIPLE_OF_FREE * (size - buffered_bytes))
    full = set()
    for partition, tier in tiers.items():
        factor = 2 if partition in paused else 1
        if (
            len(tier) * factor >= max_records
            or tier.bytes * factor >= max_bytes
            or not tier.has_metadata_space(max(limits.batch_records, HOLE_BITS + 1))
        ):
            full.add(partition)
    return full
