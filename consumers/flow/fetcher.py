"""Fetches records for the partitions that have room in the buffer and in their commit metadata."""

from __future__ import annotations

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.buffer_quota import BufferQuota
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.transport.protocols import Message, Partition, Reader


class Fetcher:
    """Fetches records, and pauses and resumes partitions. Only the polling thread uses it."""

    def __init__(
        self, reader: Reader, assignment: Assignment, lanes: Lanes, limits: LimitsSection, *, in_order: bool
    ) -> None:
        """Start with all partitions resumed.

        Args:
            reader: the Kafka consumer.
            assignment: the owned partitions.
            lanes: the buffered records.
            limits: size of the buffer and of a batch.
            in_order: whether the records of a partition finish in the order of their offsets.
        """
        self._reader = reader
        self._assignment = assignment
        self._quota = BufferQuota(limits, lanes)
        self._max_new_offsets = max(limits.batch_records, HOLE_BITS + 1)
        self._in_order = in_order
        self._paused: set[Partition] = set()
        self._out_of_metadata: set[Partition] = set()
        """Partitions whose commit metadata has no room for another fetch."""

    def fetch(self, unwritten_bytes: int, timeout_s: float) -> list[Message]:
        """Fetch records for which there is room.

        Args:
            unwritten_bytes: size of the batches that are not written yet.
            timeout_s: how long to wait for records.
        """
        paused = self._quota.partitions_to_pause(unwritten_bytes) | self._assignment.halted | self._out_of_metadata
        paused |= self._assignment.starting
        if paused != self._paused:
            self._reader.pause(paused - self._paused)
            self._reader.resume(self._paused - paused)
            self._paused = paused
        return self._reader.fetch(self._quota.max_records_to_fetch(), timeout_s)

    def check_metadata_room(self) -> None:
        """Choose the partitions to pause because their commit metadata has no room, and rewind the deferred ones."""
        if self._in_order and not (self._assignment.deferred or self._out_of_metadata):
            return  # progress in order needs no metadata
        self._out_of_metadata = {
            assigned.partition
            for assigned in self._assignment.all()
            if not assigned.progress.can_track(self._max_new_offsets)
        }
        deferred, self._assignment.deferred = self._assignment.deferred, {}
        for partition, offset in deferred.items():
            self._reader.seek(partition, offset)
            self._out_of_metadata.add(partition)

    def forget(self, partition: Partition) -> None:
        """Drop the state of a partition that is no longer owned."""
        self._out_of_metadata.discard(partition)
        self._paused.discard(partition)
