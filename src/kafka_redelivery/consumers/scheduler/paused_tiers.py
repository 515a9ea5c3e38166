"""The tiers that a scheduler must not release at present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.consumers.telemetry.observers import SchedulerObserver
from kafka_redelivery.transport.protocols import Partition


class PausedTiers:
    """Applies pauses between two turns of the scheduler. What is buffered of a paused tier stays buffered, in order."""

    def __init__(self, pauses: PauseView) -> None:
        """Hold nothing yet."""
        self._pauses = pauses
        self._current = pauses.current

    def apply(self) -> None:
        """Obey the pauses that hold now. A write that has begun ends as usual."""
        self._current = self._pauses.current
        self._pauses.applied(self._current)

    @property
    def named(self) -> frozenset[str]:
        """The tiers that the control topic names."""
        return self._pauses.tiers

    def running(self, tiers: Mapping[Partition, TierPartition]) -> Mapping[Partition, TierPartition]:
        """Return the partitions that may be released."""
        if not self._current:
            return tiers
        return {each: tier for each, tier in tiers.items() if not self._current.covers(each.topic)}

    def held(self, partitions: Iterable[Partition]) -> set[Partition]:
        """Return the partitions that are paused."""
        return {each for each in partitions if self._current.covers(each.topic)} if self._current else set()

    def report(self, observer: SchedulerObserver, partitions: Iterable[Partition]) -> None:
        """Report what is held: a number for each assigned topic."""
        partitions = list(partitions)
        held = Counter({each.topic: 0 for each in partitions})
        held.update(each.topic for each in self.held(partitions))
        observer.paused(held, self._current.end)
