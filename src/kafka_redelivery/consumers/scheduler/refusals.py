"""Records that Kafka has refused to take from their tier, and what becomes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_redelivery.consumers.flow.halted_partitions import HaltedPartitions
from kafka_redelivery.consumers.scheduler.release import Release
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import WriteRefusedError
from kafka_redelivery.transport.protocols import Partition


class Refusals:
    """Refused records by tier partition and offset. They are dead-lettered when they are read again."""

    def __init__(self, halted: HaltedPartitions, observer: ProcessObserver) -> None:
        """Start without refusals.

        Args:
            halted: gets the partitions that cannot go on.
            observer: learns of each of them.
        """
        self._halted = halted
        self._observer = observer
        self._reasons: dict[tuple[Partition, int], str] = {}

    def reason(self, partition: Partition, offset: int) -> str | None:
        """Return the broker's reason for refusing a record, ``None`` if it has not refused it."""
        return self._reasons.get((partition, offset))

    def add(self, release: Release, error: WriteRefusedError) -> dict[Partition, Checkpoint]:
        """Add the refused records of a write. If one is a dead letter, or lacks a right or topic, its partition halts.

        Returns:
            The offsets of the other partitions whose records are written nevertheless, if there is no transaction.
        """
        halted: set[Partition] = set()
        for refused in error.refused:
            origin = release.origins[refused.index]
            if origin not in self._reasons and not refused.cause.outside:
                self._reasons[origin] = refused.reason
            elif origin[0] not in halted:
                halted.add(origin[0])
                self._observer.halted(self._halted.halt(*origin, release.records[refused.index], refused))
        if not error.others_written:
            return {}
        return {partition: point for partition, point in release.checkpoints.items() if partition not in halted}

    def confirm(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Drop the refusals that a confirmed write has dealt with."""
        for partition, offset in list(self._reasons):
            if partition in checkpoints and offset < checkpoints[partition].offset:
                del self._reasons[partition, offset]

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop the refusals of partitions that are given up, or whose topics were created again."""
        self._reasons = {origin: reason for origin, reason in self._reasons.items() if origin[0] not in partitions}
