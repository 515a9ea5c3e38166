"""How many records of each tier partition a scheduler buffers; it stops fetching those for which it has no room."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from math import inf

from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.transport.protocols import Partition, Reader

_BUFFER_DIVISOR = 2
"""A scheduler buffers half as much as a worker: only records that leave soon need to be in memory."""

_MAX_MULTIPLE_OF_FREE = 4
"""A partition may buffer four times as much as is free: one alone gets 4/5 of the buffer, each of eight gets 4/33."""

_RESERVED_DIVISOR = 2
"""Half of an equal share is always free to a partition, however much the others buffer: theirs may wait for hours."""

_WRITE_DIVISOR = 4
_MAX_WRITE_BYTES = 16 * 2**20

_FETCH_AHEAD_MS = 1_000
"""How long before its first record leaves a postponed partition is fetched again."""

_SOON_MS = 2 * _FETCH_AHEAD_MS
"""Records that leave within this time are not dropped: they are needed before a fetch pays off."""

_TURN_MS = 10_000
"""How long a partition of which an operator wants records keeps others from being fetched for that. What it wants may
need hours, as when records in front of it have to leave before."""

_STOP_FACTOR = 1.5
"""Nothing is fetched beyond one and a half times the limit: with the write in progress that is ``bufferBytes``."""


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


class FullBuffer:
    """Pauses and resumes partitions. Only the scheduler's thread uses it.

    :func:`full_partitions` leaves room for each partition, since what fills the buffer may wait for hours and what
    comes elsewhere for a second. Each may then hold one batch, so large records in many partitions exceed the limit.
    When they do, the partitions whose records leave last are *postponed*: their records are dropped, and fetched again
    a second before the first of them leaves. If what is left leaves soon and exceeds the limit by half, nothing is
    fetched until a part of it has left. A partition of which only a part leaves soon counts as neither: it must not
    wait, nor make others wait until its last record leaves.

    A postponed partition of which an operator wants records is fetched at once, and kept until nothing is wanted of it
    any more. If half of the buffer is not free, others are postponed for it. These partitions are fetched one after
    the other, so that they exceed the limit no more than a single one would. If others wait, each has ten seconds.
    """

    def __init__(self, reader: Reader, limits: LimitsSection) -> None:
        """Keep the arguments."""
        self._reader = reader
        self._limits = limits
        self._turns: dict[Partition, int] = {}
        """When the partitions were last fetched that were postponed and of which an operator wants records (epoch ms).
        """

    def pause(
        self,
        tiers: Mapping[Partition, TierPartition],
        halted: AbstractSet[Partition],
        stopped: AbstractSet[Partition],
        busy: Iterable[Partition],
        now_ms: int,
        wanted: Iterable[Partition] = (),
    ) -> Collection[Partition]:
        """Pause the partitions that must not be fetched, and resume the others.

        Args:
            tiers: the partitions that are read.
            halted: those that are halted.
            stopped: those that an operator has paused.
            busy: those whose offset is being committed.
            now_ms: epoch ms.
            wanted: those with records that an operator wants to leave now, the most urgent first.

        Returns:
            the partitions to rewind to their committed offsets, because their records are to be dropped.
        """
        paused = self._reader.paused
        full = full_partitions(tiers, paused, self._limits) | halted | stopped
        dropped: list[Partition] = []
        limit = buffer_bytes(self._limits)
        buffered = sum(tier.bytes for tier in tiers.values())
        running = [each for each in wanted if each in tiers and each not in halted and each not in stopped]
        self._turns = {each: began_ms for each, began_ms in self._turns.items() if each in running}
        waiting = [each for each in running if tiers[each].fetch_at_ms > now_ms]
        hurrying = min(waiting, key=lambda each: self._turns.get(each, 0), default=None)
        if buffered > (limit if hurrying is None else limit // 2):
            turn_ms = inf if hurrying is None else _TURN_MS
            kept = {each for each, began_ms in self._turns.items() if now_ms - began_ms < turn_ms}
            dropped = self._postpone(tiers, halted, stopped, kept.union(busy), now_ms)
        if buffered > limit:
            leaves_soon = (
                tier.bytes
                for each, tier in tiers.items()
                if each not in dropped and each not in stopped and (tier.last_ms or 0) <= now_ms + _SOON_MS
            )
            if sum(leaves_soon) > _STOP_FACTOR * limit:
                full |= tiers.keys()
        if hurrying is not None and buffered - sum(tiers[each].bytes for each in dropped) <= limit // 2:
            tiers[hurrying].fetch_at_ms = 0.0
            self._turns[hurrying] = now_ms
        full |= {each for each, tier in tiers.items() if tier.fetch_at_ms > now_ms}
        if full != paused:
            self._reader.pause(full - paused)
            self._reader.resume((paused - full) & tiers.keys())
        return dropped

    def _postpone(
        self,
        tiers: Mapping[Partition, TierPartition],
        halted: AbstractSet[Partition],
        stopped: AbstractSet[Partition],
        kept: Container[Partition],
        now_ms: int,
    ) -> list[Partition]:
        """Choose the partitions to drop, those that leave last first, until half of the buffer is free."""
        later = [
            (leaves_ms, each)
            for each, tier in tiers.items()
            if tier.trusted and each not in halted and each not in kept
            if tier.next_ms is not None
            if (leaves_ms := inf if each in stopped else tier.next_ms) > now_ms + _SOON_MS
        ]
        excess = sum(tier.bytes for tier in tiers.values()) - buffer_bytes(self._limits) // 2
        dropped = []
        for leaves_ms, partition in sorted(later, reverse=True):
            if excess <= 0:
                break
            excess -= tiers[partition].bytes
            # A paused partition is fetched when the operator resumes it, whenever its records leave.
            tiers[partition].fetch_at_ms = now_ms if partition in stopped else leaves_ms - _FETCH_AHEAD_MS
            dropped.append(partition)
        return dropped
