"""The ends of partitions that a consumer has reached."""

from __future__ import annotations

from kafka_redelivery.transport.protocols import Partition


class ReachedEnds:
    """Keeps the end offset of each partition when it was last reached. Used by one thread."""

    def __init__(self) -> None:
        """Start without partitions."""
        self._ends: dict[Partition, int] = {}
        self._new: dict[Partition, int] = {}
        """The part of ``_ends`` that :meth:`take` has not returned yet."""

    def reach(self, partition: Partition, end: int) -> None:
        """Note that the end of a partition is reached."""
        self._ends[partition] = self._new[partition] = end

    def get(self, partition: Partition) -> int | None:
        """Return the end offset; ``None`` if it was not reached."""
        return self._ends.get(partition)

    def take(self) -> dict[Partition, int]:
        """Return the ends that were reached since the last call."""
        if not self._new:
            return self._new
        ends, self._new = self._new, {}
        return ends

    def forget(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned, or is read from another position."""
        self._ends.pop(partition, None)
        self._new.pop(partition, None)

    def clear(self) -> None:
        """Drop all partitions."""
        self._ends.clear()
        self._new.clear()
