"""The partitions that a worker owns, and their progress."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.first_offsets import KEEP_EVERY_S, FirstOffsets
from kafka_redelivery.consumers.flow.lane import by_partition
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.stops import LostPosition, Stops
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.consumers.telemetry.observers import WorkerState
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Message, Partition, Reader

_IDLE_S = 1.0
"""How long a partition without new records waits for a commit that no outcome needs."""


class Assignment:
    """The partitions that a worker owns. Only the polling thread uses it."""

    def __init__(
        self,
        routes: Sequence[Route],
        reader: Reader,
        first_offsets: FirstOffsets,
        stops: Stops,
        lanes: Mapping[str, Lanes],
    ) -> None:
        """Start without partitions.

        Args:
            routes: one per source topic.
            reader: returns committed offsets.
            first_offsets: chooses where a partition without a committed offset starts.
            stops: the partitions that stand still.
            lanes: by source topic; they get a lane for each partition, as long as it is owned.
        """
        self.stops = stops
        self._lanes = lanes
        self._routes = {route.source: (route, False) for route in routes}
        self._routes |= {route.ready: (route, True) for route in routes}
        self._first_offsets = first_offsets
        self._keep_at_s = monotonic_s() + KEEP_EVERY_S
        """When the offsets of idle partitions are committed again, so that they do not expire."""

        self._starting: list[AssignedPartition] = []
        self._owned: dict[Partition, AssignedPartition] = {}
        self._source_numbers: frozenset[int] | None = None
        """Those of the owned partitions; ``None`` after a change."""

        self._reader = reader
        self.deferred: dict[Partition, int] = {}
        """Partitions that must be fetched again from this offset: the commit metadata has no room for it yet."""

    @property
    def topics(self) -> list[str]:
        """The topics to subscribe to: the sources and their ready topics."""
        return list(self._routes)

    @property
    def starting(self) -> set[Partition]:
        """Partitions that are not fetched before their start offset is committed."""
        self._starting = [each for each in self._starting if each.starting and not each.closed]
        return {each.partition for each in self._starting}

    @property
    def partitions(self) -> AbstractSet[Partition]:
        """The owned partitions."""
        return self._owned.keys()

    def all(self) -> list[AssignedPartition]:
        """Return every owned partition."""
        return list(self._owned.values())

    def source_numbers(self) -> frozenset[int]:
        """Return the numbers of the owned source partitions: the same object until they change."""
        if self._source_numbers is None:
            owned = self._owned.items()
            self._source_numbers = frozenset(each.number for each, assigned in owned if not assigned.redelivered)
        return self._source_numbers

    def find(self, partitions: Iterable[Partition]) -> list[AssignedPartition]:
        """Return those of ``partitions`` that are owned."""
        return [self._owned[partition] for partition in partitions if partition in self._owned]

    def dirty(self) -> list[AssignedPartition]:
        """Return the partitions with progress that is not committed and may be: without the right Read it may not."""
        forbidden = self._reader.forbidden
        return [each for each in self._owned.values() if each.dirty and each.partition.topic not in forbidden]

    def commit_due(self, *, only_starts: bool = False) -> bool:
        """Whether a partition has progress that has to be committed now, even if no outcome has to be written.

        Args:
            only_starts: leave out all but those that wait for the commit of their start offset.
        """
        now_s = monotonic_s()
        return any(each.starting or (each.commit_at_s <= now_s and not only_starts) for each in self.dirty())

    def reach_ends(self, ends: Mapping[Partition, int]) -> None:
        """Pass the offsets without records at the end of partitions, such as the marker of a transaction.

        Without this the committed offset of an idle partition would stay at the marker, which retention deletes. It
        could not be known afterwards whether a record was deleted with it.

        Args:
            ends: partitions whose records have all been accepted, each with its end offset.
        """
        for partition, end in ends.items():
            assigned = self._owned.get(partition)
            if assigned is None or partition in self.stops.unread:
                continue
            if assigned.progress.reach_end(end) and not assigned.dirty:
                assigned.dirty, assigned.commit_at_s = True, monotonic_s() + _IDLE_S

    def open(self, partitions: Iterable[Partition], owned: Container[Partition] = ()) -> list[AssignedPartition]:
        """Take partitions over at their committed offsets, or start again those that are ``owned``.

        Those that do not exist are left out.
        """
        partitions = list(partitions)
        positions = self._first_offsets.positions(partitions, owned)
        opened = [self._open(each, positions) for each in partitions if each not in self._first_offsets.gone]
        for assigned in opened:
            self._owned[assigned.partition] = assigned
            self._lanes[assigned.route.source].open(assigned)
        self._source_numbers = None
        return opened

    def reopen(self, leaving: Collection[Partition] = ()) -> list[AssignedPartition]:
        """Open every owned partition again at its committed offset, except for those in ``leaving``."""
        partitions = [partition for partition in self._owned if partition not in leaving]
        for assigned in self._owned.values():
            self._end(assigned)
        self._owned = {}
        return self.open(partitions, partitions)

    def save_positions(self) -> list[Partition]:
        """Save the committed positions of all partitions, because this process stops; return the partitions."""
        self._first_offsets.save(self._owned.keys() - self.stops.lost)
        return list(self._owned)

    def close(self, partition: Partition) -> None:
        """Remove a partition."""
        assigned = self._owned.pop(partition, None)
        if assigned is not None:
            self._end(assigned)
            self._source_numbers = None
        self._first_offsets.close(partition)
        self.stops.drop(partition)
        self.deferred.pop(partition, None)

    def _end(self, assigned: AssignedPartition) -> None:
        assigned.closed = True
        self._lanes[assigned.route.source].close(assigned)

    def to_restart(self) -> list[Partition]:
        """Return the partitions to open again; see :meth:`FirstOffsets.to_restart`. Does not wait."""
        if not (self._owned or self._first_offsets.gone):
            return []
        return self._first_offsets.changed(self._routes.keys(), self._owned)

    def lose(self, error: PositionDeletedError) -> None:
        """Halt the partition whose next offset does not exist, if this worker reads its topic."""
        self.stops.lose_read(error, self._owned)

    def moved(self) -> list[Partition]:
        """Return the halted partitions to open again, mostly because their committed offset was moved."""
        return self.stops.moved(
            self._first_offsets.committed_now,
            lambda: [each for each, assigned in self._owned.items() if assigned.progress.outstanding],
            lambda: self._first_offsets.control_problem() is None,
            self._first_offsets.answers,
        )

    def report(self) -> None:
        """Report the partitions that stand still, and to the control topic which have their first committed offset."""
        self._first_offsets.note_first_offsets(
            {each.partition: each.committed.offset for each in self._owned.values() if each.committed is not None}
        )
        if monotonic_s() >= self._keep_at_s:
            self._keep_at_s = monotonic_s() + KEEP_EVERY_S
            for assigned in self._owned.values():
                assigned.dirty = assigned.dirty or assigned.partition not in self.stops.lost
        self.stops.report(self._reader, self._owned.keys())

    def state(self, in_flight: int, unacknowledged: int) -> WorkerState:
        """Return the state to report; the lag of a topic is about how many of its records are not finished."""
        lag: dict[str, int] = {}
        lags = self._reader.lags({each: assigned.progress.next_offset for each, assigned in self._owned.items()})
        for partition, assigned in self._owned.items():
            lag[partition.topic] = lag.get(partition.topic, 0) + lags[partition] + assigned.progress.outstanding
        return WorkerState(len(self._owned), in_flight, lag, unacknowledged)

    def accept(self, messages: Sequence[Message]) -> Iterator[tuple[AssignedPartition, list[Message]]]:
        """Yield the fetched records that have to be handled, by partition, in the order of their offsets."""
        unread = self.stops.unread
        for partition, records in by_partition(messages).items():
            assigned = self._owned.get(partition)
            if assigned is None or partition in unread:
                continue
            yield assigned, self._unfinished(assigned, records)

    def _unfinished(self, assigned: AssignedPartition, records: list[Message]) -> list[Message]:
        """Return the records that are not finished.

        The first record whose progress would not fit into the commit metadata is deferred, with all that follow it.
        """
        progress = assigned.progress
        first, last = records[0].offset(), records[-1].offset()
        all_fit = progress.can_track(max(0, last - progress.next_offset) + 1)
        if all_fit and last - first + 1 == len(records) and progress.track_range(first, len(records)):
            return records
        unfinished = []
        for record in records:
            offset = record.offset()
            if offset < progress.next_offset:
                continue
            if not all_fit and not progress.can_track_offset(offset):
                self.deferred[assigned.partition] = offset
                break
            if progress.track(offset):
                unfinished.append(record)
        return unfinished

    def _open(self, partition: Partition, positions: Mapping[Partition, Checkpoint | None]) -> AssignedPartition:
        route, redelivered = self._routes[partition.topic]
        lanes = self._lanes[route.source]
        start = self._first_offsets.start(
            partition, positions, internal=redelivered, repeated="handled", author=lanes.author
        )
        mark = self._first_offsets.mark_of(partition)
        if isinstance(start.found, LostPosition):
            self.stops.lose(start.found)
            return AssignedPartition(partition, route, redelivered, Progress(start.offset), mark=mark)
        start.found.max_waiting = lanes.max_in_place
        saved = partition in self._first_offsets.restored  # nothing is committed yet
        committed = None if saved else positions[partition]
        assigned = AssignedPartition(
            partition, route, redelivered, start.found, committed, committed is None, mark, starting=start.waits
        )
        if start.waits:
            self._starting.append(assigned)
        return assigned
