"""Fetches records for the partitions that have room in buffer and metadata, and are neither halted nor held."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.buffer_quota import BufferQuota
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.lost_positions import LostPositions
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Message, Partition, Reader


class Fetcher:
    """Fetches records, and pauses and resumes partitions. Only the polling thread uses it."""

    def __init__(
        self,
        reader: Reader,
        assignment: Assignment,
        lanes: Lanes,
        limits: LimitsSection,
        lost_positions: LostPositions,
        *,
        in_order: bool,
    ) -> None:
        """Start with all partitions resumed.

        Args:
            reader: the Kafka consumer.
            assignment: the owned partitions.
            lanes: the buffered records.
            limits: size of the buffer and of a batch.
            lost_positions: halts the partitions whose position is lost.
            in_order: whether the records of a partition finish in the order of their offsets.
        """
        self._reader = reader
        self._assignment = assignment
        self._lanes = lanes
        self._lost_positions = lost_positions
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
        paused |= self._assignment.starting | self._lanes.held
        if paused != self._paused:
            self._reader.pause(paused - self._paused)
            self._reader.resume(self._paused - paused)
            self._paused = paused
        try:
            return self._reader.fetch(self._quota.max_records_to_fetch(), timeout_s)
        except PositionDeletedError as error:
            self._lost_positions.halt(error)
            return []

    def finish_accepting(self) -> None:
        """Rewind the partitions whose records were accepted in part only, and pass the ends that the fetch reached."""
        self._check_metadata_room()
        ends = self._reader.take_reached_ends()
        if ends:
            self._assignment.reach_ends(ends)

    def restart_moved(self, forget: Callable[[Iterable[Partition]], None]) -> None:
        """Fetch halted partitions again whose committed offset was moved beyond the deleted position.

        Args:
            forget: drops all state of partitions.
        """
        self._lost_positions.halt_opened()
        moved = self._lost_positions.moved()
        if not moved:
            return
        forget(moved)
        self.restart(moved)

    def restart(self, partitions: Iterable[Partition]) -> None:
        """Open partitions again of which nothing is known any more, and fetch them from their committed offsets."""
        for assigned in self._assignment.open(partitions):
            self._lanes.open(assigned)
            if assigned.partition in self._assignment.halted:
                continue  # for another cause
            assigned.dirty = True  # a write that began before the move may still commit an older offset
            self._reader.seek(assigned.partition, assigned.progress.next_offset)
            self._reader.resume([assigned.partition])

    def _check_metadata_room(self) -> None:
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
        self._lost_positions.forget(partition)
        self._out_of_metadata.discard(partition)
        self._paused.discard(partition)
