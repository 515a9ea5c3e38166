"""Fetches records for the partitions that have room in buffer and metadata, and are neither halted nor held."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.lane import Buffered
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Message, Partition, Reader

_REDELIVERY_DIVISOR = 4
"""Redeliveries get a quarter of the buffer and first deliveries the rest."""

_MAX_MULTIPLE_OF_FREE = 2
"""A partition may buffer twice as much as is free: one alone gets 2/3 of the buffer, each of eight gets 2/17."""

_MAX_BATCH_BYTES = 16 * 2**20


def batch_bytes(limits: LimitsSection) -> int:
    """Return how many bytes make a batch full. Two batches exist at a time: one fills while the other is written."""
    return min(_MAX_BATCH_BYTES, limits.buffer_bytes // 8)


class BufferQuota:
    """Decides which partitions of one handler's sources may be fetched. Only the polling thread uses it.

    Handlers have equal parts of the buffer, so a slow one does not keep the sources of another from being fetched. In
    each part, source topics and ready topics each have their own share, so neither keeps the other from being fetched.
    Within a share, a partition may buffer twice as much as is free. A partition that is alone gets most of the share,
    and there is always room for a partition that has buffered nothing so far.

    A record is buffered from its fetch until its outcome is written. A part may exceed its limits by one fetch,
    because the size of a record is not known before it is fetched.
    """

    def __init__(self, limits: LimitsSection, lanes: Lanes, handlers: int = 1) -> None:
        """Start with all partitions resumed.

        Args:
            limits: size of the buffer and of a batch.
            lanes: the buffered records.
            handlers: how many handlers the buffer is divided between.
        """
        self._lanes = lanes
        self._handlers = handlers
        records, size = limits.buffer_records // handlers, limits.buffer_bytes // handlers
        share = Buffered(max(1, records // _REDELIVERY_DIVISOR), size // _REDELIVERY_DIVISOR)
        self._limits = {
            True: share,
            False: Buffered(max(1, records - share.records), size - share.bytes),
        }
        """Share of the buffer, by whether it is for redeliveries."""

        self._max_fetch = limits.batch_records
        self._paused: dict[Partition, Buffered] = {}
        """What each paused partition had buffered when it was paused."""

    def max_records_to_fetch(self) -> int:
        """Return how many records may be fetched now. At least one, since the client's membership needs fetches."""
        free = max(
            limit.records - self._lanes.buffered(redelivered=redelivered).records
            for redelivered, limit in self._limits.items()
        )
        return max(1, min(free, self._max_fetch))

    def partitions_to_pause(self, unwritten_bytes: int) -> set[Partition]:
        """Return the partitions that must not be fetched now.

        A paused partition is resumed when its buffered records have halved, because each pause costs a new fetch.

        Args:
            unwritten_bytes: size of the batches that are not written yet.
        """
        free = {redelivered: self._free(unwritten_bytes, redelivered=redelivered) for redelivered in (False, True)}
        # No partition has buffered more than all of its kind. This is decided without a look at each of them, because
        # there can be hundreds and the question is asked in every turn.
        if not self._paused and not any(
            _exceeds(self._lanes.buffered(redelivered=redelivered), left) for redelivered, left in free.items()
        ):
            return set()
        paused = {}
        for partition, lane in self._lanes.all():
            left, buffered = free[lane.assigned.redelivered], lane.buffered
            before = self._paused.get(partition)
            if _exceeds(buffered, left):
                paused[partition] = Buffered(buffered.records, buffered.bytes) if before is None else before
            elif before is not None and (buffered.records * 2 > before.records or buffered.bytes * 2 > before.bytes):
                paused[partition] = before
        self._paused = paused
        return set(paused)

    def _free(self, unwritten_bytes: int, *, redelivered: bool) -> Buffered:
        limit, buffered = self._limits[redelivered], self._lanes.buffered(redelivered=redelivered)
        # Batches contain records of all handlers and both kinds, so each share is charged in proportion to its size.
        share = 1 if redelivered else _REDELIVERY_DIVISOR - 1
        charged = unwritten_bytes // (self._handlers * _REDELIVERY_DIVISOR) * share
        return Buffered(limit.records - buffered.records, limit.bytes - buffered.bytes - charged)


def _exceeds(buffered: Buffered, free: Buffered) -> bool:
    return (
        buffered.records >= _MAX_MULTIPLE_OF_FREE * free.records or buffered.bytes >= _MAX_MULTIPLE_OF_FREE * free.bytes
    )


class Fetcher:
    """Fetches records, and pauses and resumes partitions. Only the polling thread uses it."""

    def __init__(
        self,
        reader: Reader,
        assignment: Assignment,
        lanes: Collection[Lanes],
        limits: LimitsSection,
        *,
        in_order: bool,
    ) -> None:
        """Start with all partitions resumed.

        Args:
            reader: the Kafka consumer.
            assignment: the owned partitions.
            lanes: the buffered records, of each handler.
            limits: size of the buffer and of a batch.
            in_order: whether the records of a partition finish in the order of their offsets.
        """
        self._reader = reader
        self._assignment = assignment
        self._lanes = lanes
        self._quotas = [BufferQuota(limits, each, len(lanes)) for each in lanes]
        self._max_new_offsets = max(limits.batch_records, HOLE_BITS + 1)
        self._in_order = in_order
        self._out_of_metadata: set[Partition] = set()
        """Partitions whose commit metadata has no room for another fetch."""

    def fetch(self, unwritten_bytes: int, timeout_s: float) -> list[Message]:
        """Fetch records for which there is room.

        Args:
            unwritten_bytes: size of the batches that are not written yet.
            timeout_s: how long to wait for records.
        """
        paused = self._out_of_metadata | self._assignment.stops.unread | self._assignment.starting
        for quota, lanes in zip(self._quotas, self._lanes, strict=True):
            paused |= quota.partitions_to_pause(unwritten_bytes) | lanes.held
        before = self._reader.paused
        if paused != before:
            self._reader.pause(paused - before)
            self._reader.resume((before - paused) & self._assignment.partitions)
        try:
            return self._reader.fetch(max(quota.max_records_to_fetch() for quota in self._quotas), timeout_s)
        except PositionDeletedError as error:
            self._assignment.lose(error)
            return []

    def finish_accepting(self) -> None:
        """Rewind the partitions whose records were accepted in part only, and pass the ends that the fetch reached."""
        self._check_metadata_room()
        ends = self._reader.take_reached_ends()
        if ends:
            self._assignment.reach_ends(ends)

    def restart(self, partitions: Iterable[Partition]) -> None:
        """Open partitions again of which nothing is known any more, and fetch them from their committed offsets."""
        for assigned in self._assignment.open(partitions):
            if assigned.partition in self._assignment.stops.unread:
                continue  # for another cause
            assigned.dirty = True  # a write that began before the move may still commit an older offset
            self._reader.seek(assigned.partition, assigned.progress.next_offset)

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
