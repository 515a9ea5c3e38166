"""Partitions of tiers that a scheduler does not read because their committed offset has expired."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable

from kafka_redelivery.consumers.flow.unread_labels import unread_labels
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel, SchedulerObserver
from kafka_redelivery.transport.protocols import Partition, Reader

_log = logging.getLogger(__name__)


class ExpiredTiers:
    """Keeps each such partition halted until an operator has committed an offset for it."""

    def __init__(self, reader: Reader, observer: SchedulerObserver, health: Health) -> None:
        """Start without partitions."""
        self._reader = reader
        self._observer = observer
        self._health = health
        self.partitions: set[Partition] = set()

    def halt(self, partition: Partition, records: int) -> None:
        """Halt a partition; ``records`` is how many would be released again at most."""
        if partition in self.partitions:
            return
        self.partitions.add(partition)
        name = f"{partition.topic}-{partition.number}"
        cause = f"its committed offset has expired; up to {records} records would be released again"
        fix = "to go on at the log start, run: redelivery topology apply --accept-repeats"
        _log.error("%s is halted, other partitions are not: %s; %s", name, cause, fix)
        self._observer.halted(f"{name}: {cause}")
        self._health.note(name, f"{name} is halted: {cause}; {fix}")

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop partitions that are no longer owned, or are opened again."""
        for partition in self.partitions.intersection(partitions):
            self.partitions.discard(partition)
            self._health.note(f"{partition.topic}-{partition.number}", "")

    def moved(self) -> list[Partition]:
        """Return the partitions that have a committed offset now, and drop them."""
        found = self._reader.committed_now(self.partitions) if self.partitions else {}
        moved = [partition for partition, committed in found.items() if committed is not None]
        self.forget(moved)
        return moved

    def labels(self, owned: Iterable[Partition]) -> Counter[HaltLabel]:
        """Return the number of partitions by label of the metric, with those that cannot be read for other causes."""
        expired = Counter(HaltLabel(partition.topic, "expired") for partition in self.partitions)
        return expired + unread_labels(self._reader, owned, self._health)
