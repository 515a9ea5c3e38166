"""Partitions of tiers that a scheduler does not read, because their next offset is gone or unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping
from collections.abc import Set as AbstractSet

from kafka_redelivery.consumers.flow.lost_position import LostPosition
from kafka_redelivery.consumers.flow.unread_labels import unread_labels
from kafka_redelivery.consumers.scheduler.release import Release
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel, SchedulerObserver
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Message, Partition, Reader


class HaltedTiers:
    """Keeps each such partition halted until an operator has moved its committed offset, or has committed one.

    One whose offset may not be read, or depends on a control topic that cannot be read, goes on when it can be read.
    What was fetched before is still released and committed. See
    :class:`~kafka_redelivery.consumers.flow.lost_positions.LostPositions`, which does the same in a worker.
    """

    def __init__(self, reader: Reader, observer: SchedulerObserver, health: Health) -> None:
        """Start without partitions."""
        self._reader = reader
        self._observer = observer
        self._health = health
        self._lost: dict[Partition, LostPosition] = {}

    @property
    def partitions(self) -> AbstractSet[Partition]:
        """The halted partitions."""
        return self._lost.keys()

    def fetch(self, maximum: int, timeout_s: float, owned: Container[Partition]) -> list[Message]:
        """Fetch records. Halt the partition whose next offset does not exist, if it is one of ``owned``."""
        try:
            return self._reader.fetch(maximum, timeout_s)
        except PositionDeletedError as error:
            lost = LostPosition.of(error)
            if lost.partition in owned:
                self.halt(lost)
            return []

    def halt(self, lost: LostPosition) -> None:
        """Halt a partition."""
        known = self._lost.get(lost.partition)
        self._lost[lost.partition] = lost
        if not lost.repeats(known):
            lost.report(self._observer, self._health)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop partitions that are no longer owned, or are opened again."""
        for partition in self._lost.keys() & partitions:
            self._lost.pop(partition).withdraw(self._health)

    def moved(
        self,
        tiers: Mapping[Partition, TierPartition],
        in_flight: Release | None,
        present: Callable[[Mapping[Partition, Checkpoint | None]], Mapping[Partition, Checkpoint | None]],
        *,
        control_read: bool,
    ) -> list[Partition]:
        """Return the partitions that can go on, mostly because their committed offset was moved, and drop them.

        A partition stays halted as long as records of it are buffered or being written: their commit would replace the
        offset that was moved.

        Args:
            tiers: the partitions that were opened.
            in_flight: the write that is under way.
            present: takes the committed offsets of older topics away.
            control_read: whether the control topic was read since the last partitions were assigned.
        """
        busy = {partition for partition, tier in tiers.items() if tier.progress.outstanding}
        if in_flight is not None:
            busy |= in_flight.checkpoints.keys()
        found = present(self._reader.committed_now(self._lost.keys() - busy))
        moved = [
            partition
            for partition, committed in found.items()
            if self._lost[partition].can_go_on(committed, control_read=control_read)
        ]
        self.forget(moved)
        return moved

    def labels(self, owned: AbstractSet[Partition]) -> Counter[HaltLabel]:
        """Return the number of partitions by label of the metric, with those that cannot be read for other causes."""
        lost = Counter(HaltLabel(partition.topic, each.label) for partition, each in self._lost.items())
        return lost + unread_labels(self._reader, owned - self._lost.keys(), self._health)
