"""Stops fetching the partitions of tiers for which a scheduler's buffer has no room, and resumes them."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from collections.abc import Set as AbstractSet
from math import inf

from kafka_redelivery.consumers.scheduler.buffer_limits import buffer_bytes, full_partitions
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.transport.protocols import Partition, Reader

_FETCH_AHEAD_MS = 1_000
"""How long before its first record leaves a postponed partition is fetched again."""

_SOON_MS = 2 * _FETCH_AHEAD_MS
"""Records that leave within this time are not dropped: they are needed before a fetch pays off."""


_STOP_FACTOR = 1.5
"""Nothing is fetched beyond one and a half times the limit: with the write in progress that is ``bufferBytes``."""


class FullBuffer:
    """Pauses and resumes partitions. Only the scheduler's thread uses it.

    :func:`full_partitions` leaves room for each partition, since what fills the buffer may wait for hours and what
    comes elsewhere for a second. Each may then hold one batch, so large records in many partitions exceed the limit.
    When they do, the partitions whose records leave last are *postponed*: their records are dropped, and fetched again
    a second before the first of them leaves. If what is left leaves soon and exceeds the limit by half, nothing is
    fetched until a part of it has left. A partition of which only a part leaves soon counts as neither: it must not
    wait, nor make others wait until its last record leaves.
    """

    def __init__(self, reader: Reader, limits: LimitsSection) -> None:
        """Start with all partitions resumed."""
        self._reader = reader
        self._limits = limits
        self._paused: set[Partition] = set()
        self._postponed: dict[Partition, float] = {}
        """When each postponed partition is fetched again (epoch ms)."""

    def pause(
        self,
        tiers: Mapping[Partition, TierPartition],
        halted: AbstractSet[Partition],
        stopped: AbstractSet[Partition],
        busy: Container[Partition],
        now_ms: int,
    ) -> Collection[Partition]:
        """Pause the partitions that must not be fetched, and resume the others.

        Args:
            tiers: the partitions that are read.
            halted: those that are halted.
            stopped: those that an operator has paused.
            busy: those whose offset is being committed.
            now_ms: epoch ms.

        Returns:
            the partitions to rewind to their committed offsets, because their records are to be dropped.
        """
        self._postponed = {each: until for each, until in self._postponed.items() if until > now_ms}
        full = full_partitions(tiers, self._paused, self._limits) | halted | stopped
        dropped: list[Partition] = []
        limit = buffer_bytes(self._limits)
        if sum(tier.bytes for tier in tiers.values()) > limit:
            dropped = self._postpone(tiers, halted, stopped, busy, now_ms)
            leaves_soon = (
                tier.bytes
                for each, tier in tiers.items()
                if each not in dropped and each not in stopped and (tier.last_ms or 0) <= now_ms + _SOON_MS
            )
            if sum(leaves_soon) > _STOP_FACTOR * limit:
                full |= tiers.keys()
        full |= self._postponed.keys() & tiers.keys()
        if full != self._paused:
            self._reader.pause(full - self._paused)
            self._reader.resume(partition for partition in self._paused - full if partition in tiers)
            self._paused = full
        return dropped

    def _postpone(
        self,
        tiers: Mapping[Partition, TierPartition],
        halted: AbstractSet[Partition],
        stopped: AbstractSet[Partition],
        busy: Container[Partition],
        now_ms: int,
    ) -> list[Partition]:
        """Choose the partitions to drop, those that leave last first, until half of the buffer is free."""
        later = [
            (leaves_ms, each)
            for each, tier in tiers.items()
            if tier.trusted and each not in halted and each not in busy and tier.next_ms is not None
            if (leaves_ms := inf if each in stopped else tier.next_ms) > now_ms + _SOON_MS
        ]
        excess = sum(tier.bytes for tier in tiers.values()) - buffer_bytes(self._limits) // 2
        dropped = []
        for leaves_ms, partition in sorted(later, reverse=True):
            if excess <= 0:
                break
            excess -= tiers[partition].bytes
            # A paused partition is fetched when the operator resumes it, whenever its records leave.
            self._postponed[partition] = now_ms if partition in stopped else leaves_ms - _FETCH_AHEAD_MS
            dropped.append(partition)
        return dropped

    def clock_set_back(self) -> None:
        """Fetch all postponed partitions, because the times that they wait for are not those of the clock any more."""
        self._postponed.clear()

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop partitions that are no longer owned."""
        self._paused.difference_update(partitions)
        for partition in partitions:
            self._postponed.pop(partition, None)
