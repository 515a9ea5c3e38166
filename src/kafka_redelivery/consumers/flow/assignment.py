"""The partitions that a worker owns, and their progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.first_offsets import KEEP_EVERY_S, FirstOffsets
from kafka_redelivery.consumers.flow.halted_partitions import HaltedPartitions
from kafka_redelivery.consumers.flow.held_partitions import HeldPartitions
from kafka_redelivery.consumers.flow.lost_position import LostPosition
from kafka_redelivery.consumers.flow.unread_labels import unread_labels
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel, ProcessObserver, WorkerState
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
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
        *,
        author: int | None = None,
        max_in_place: int = 0,
        refused: HaltedPartitions | None = None,
    ) -> None:
        """Start without partitions.

        Args:
            routes: one per source topic.
            reader: returns committed offsets.
            first_offsets: chooses where a partition without a committed offset starts.
            author: the number of this process if it persists deliveries before it makes them; see :class:`Progress`.
            max_in_place: how many records of a partition may wait in place.
            refused: partitions that are not fetched because Kafka refuses a record.
        """
        self.refused = HaltedPartitions() if refused is None else refused
        """Partitions that are not fetched at present because Kafka refuses a record of them."""

        self.held = HeldPartitions()
        """Partitions that wait for something that their next record needs."""

        self._author = author
        self._max_in_place = max_in_place
        self._routes = {route.source: (route, False) for route in routes}
        self._routes |= {route.ready: (route, True) for route in routes}
        self._first_offsets = first_offsets
        self._keep_at_s = monotonic_s() + KEEP_EVERY_S
        """When the offsets of idle partitions are committed again, so that they do not expire."""

        self._starting: list[AssignedPartition] = []
        self._owned: dict[Partition, AssignedPartition] = {}
        self._source_numbers: frozenset[int] | None = None
        """Those of the owned partitions; ``None`` after a change."""

        self._lost: dict[Partition, str] = {}
        """Partitions without a position to read from, and the label of the cause; see :class:`LostPosition`."""

        self._opened_lost: list[LostPosition] = []
        """What :meth:`take_lost` has not returned yet."""

        self._reader = reader
        self.deferred: dict[Partition, int] = {}
        """Partitions that must be fetched again from this offset: the commit metadata has no room for it yet."""

    @property
    def topics(self) -> list[str]:
        """The topics to subscribe to: the sources and their ready topics."""
        return list(self._routes)

    @property
    def halted(self) -> frozenset[Partition]:
        """Partitions that are not fetched at present, to protect their records."""
        return self.refused.paused | self._lost.keys()

    @property
    def starting(self) -> set[Partition]:
        """Partitions that are not fetched before their start offset is committed."""
        self._starting = [each for each in self._starting if each.starting and not each.closed]
        return {each.partition for each in self._starting}

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

    def commit_due(self) -> bool:
        """Whether a partition has progress that has to be committed now, even if no outcome has to be written."""
        return any(assigned.commit_at_s <= monotonic_s() for assigned in self.dirty())

    @property
    def start_due(self) -> bool:
        """Whether a partition waits for the commit of its start offset, which may be committed."""
        forbidden = self._reader.forbidden
        return any(partition.topic not in forbidden for partition in self.starting)

    def reach_ends(self, ends: Mapping[Partition, int]) -> None:
        """Pass the offsets without records at the end of partitions, such as the marker of a transaction.

        Without this the committed offset of an idle partition would stay at the marker, which retention deletes. It
        could not be known afterwards whether a record was deleted with it.

        Args:
            ends: partitions whose records have all been accepted, each with its end offset.
        """
        for partition, end in ends.items():
            assigned = self._owned.get(partition)
            if assigned is None or partition in self.halted:
                continue
            if assigned.progress.reach_end(end) and not assigned.dirty:
                assigned.dirty, assigned.commit_at_s = True, monotonic_s() + _IDLE_S

    def open(self, partitions: Iterable[Partition], owned: Container[Partition] = ()) -> list[AssignedPartition]:
        """Take partitions over at their committed offsets, or start again those that are ``owned``.

        Those that do not exist are left out.
        """
        partitions = list(partitions)
        committed = self._first_offsets.positions(partitions, owned)
        opened = [
            self._open(partition, committed[partition])
            if partition in committed
            else self._halt(LostPosition.forbidden(partition))
            for partition in partitions
            if partition not in self._first_offsets.gone
        ]
        for assigned in opened:
            assigned.mark = self._first_offsets.mark_of(assigned.partition)
        self._owned |= {assigned.partition: assigned for assigned in opened}
        self._source_numbers = None
        return opened

    def reopen(self, leaving: Collection[Partition] = ()) -> list[AssignedPartition]:
        """Open every owned partition again at its committed offset, except for those in ``leaving``."""
        partitions = [partition for partition in self._owned if partition not in leaving]
        for assigned in self._owned.values():
            assigned.closed = True
        self._owned = {}
        return self.open(partitions, partitions)

    def save_positions(self) -> list[Partition]:
        """Save the committed positions of all partitions, because this process stops; return the partitions."""
        self._first_offsets.save(self._owned.keys() - self._lost.keys())
        return list(self._owned)

    def close(self, partition: Partition) -> None:
        """Remove a partition."""
        assigned = self._owned.pop(partition, None)
        if assigned is not None:
            assigned.closed = True
            self._source_numbers = None
        self._lost.pop(partition, None)
        self._first_offsets.forget(partition)
        self.refused.forget(partition)
        self.held.forget(partition)
        self.deferred.pop(partition, None)

    def halt_lost(self, partition: Partition, cause: str) -> None:
        """Stop fetching a partition whose next offset does not exist, until it is closed."""
        self._lost[partition] = cause

    def to_restart(self) -> list[Partition]:
        """Return the partitions to open again; see :meth:`FirstOffsets.to_restart`. Does not wait."""
        if not (self._owned or self._first_offsets.gone):
            return []
        return self._first_offsets.changed(self._routes.keys(), self._owned)

    def present(self, committed: Mapping[Partition, Checkpoint | None]) -> Mapping[Partition, Checkpoint | None]:
        """See :meth:`FirstOffsets.present`."""
        return self._first_offsets.present(committed)

    def take_lost(self) -> list[LostPosition]:
        """Return why partitions were halted when they were opened, each once."""
        lost, self._opened_lost = self._opened_lost, []
        return lost

    @property
    def control_read(self) -> bool:
        """Whether the control topic was read since the last partitions were assigned."""
        return self._first_offsets.control_problem() is None

    def report(self, observer: ProcessObserver, health: Health) -> None:
        """Report the halted partitions to the metrics and to the readiness probe, and new ones to the control topic."""
        self._first_offsets.note_first_offsets(
            {each.partition: each.committed.offset for each in self._owned.values() if each.committed is not None}
        )
        if monotonic_s() >= self._keep_at_s:
            self._keep_at_s = monotonic_s() + KEEP_EVERY_S
            for assigned in self._owned.values():
                assigned.dirty = assigned.dirty or assigned.partition not in self._lost
        lost = Counter(HaltLabel(each.topic, cause) for each, cause in self._lost.items())
        read = self._owned.keys() - self._lost.keys()
        others = lost + self.held.labels() + unread_labels(self._reader, read, health)
        self.refused.report(observer, health, others)
        health.note("held", self.held.problem())

    def state(self, in_flight: int, unacknowledged: int) -> WorkerState:
        """Return the state to report; the lag of a topic is about how many of its records are not finished."""
        lag: dict[str, int] = {}
        lags = self._reader.lags({each: assigned.progress.next_offset for each, assigned in self._owned.items()})
        for partition, assigned in self._owned.items():
            lag[partition.topic] = lag.get(partition.topic, 0) + lags[partition] + assigned.progress.outstanding
        return WorkerState(len(self._owned), in_flight, lag, unacknowledged)

    def accept(self, messages: Sequence[Message]) -> Iterator[tuple[AssignedPartition, list[Message]]]:
        """Yield the fetched records that have to be handled, by partition, in the order of their offsets."""
        if not messages:
            return
        kind, end = type(messages[0]), 0  # its methods are looked up once: this runs for every record
        by_partition: dict[tuple[str, int], list[Message]] = {}
        for key, run in groupby(zip(map(kind.topic, messages), map(kind.partition, messages), strict=True)):
            first, end = end, end + len(list(run))
            by_partition.setdefault(key, []).extend(messages[first:end])
        halted = self.halted
        for (topic, number), records in by_partition.items():
            partition = Partition(topic, number)
            assigned = self._owned.get(partition)
            if assigned is None or partition in halted:
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

    def _halt(self, lost: LostPosition, start: int = 0) -> AssignedPartition:
        """Open a partition that is not read. ``start``: where it would be."""
        self._lost[lost.partition] = lost.label
        self._opened_lost.append(lost)
        return AssignedPartition(lost.partition, *self._routes[lost.partition.topic], Progress(start))

    def _open(self, partition: Partition, committed: Checkpoint | None) -> AssignedPartition:
        route, redelivered = self._routes[partition.topic]
        if committed is not None:
            self._first_offsets.committed(partition)
            progress = self._first_offsets.restore(partition, committed, self._author)
            if isinstance(progress, LostPosition):
                return self._halt(progress, committed.offset)
            progress.max_waiting = self._max_in_place
            if partition in self._first_offsets.restored:  # nothing is committed yet
                return AssignedPartition(partition, route, redelivered, progress, dirty=True)
            return AssignedPartition(partition, route, redelivered, progress, committed)
        if partition in self._first_offsets.unknown:
            return self._halt(LostPosition.control(partition, self._first_offsets.unknown[partition]))
        expired = self._first_offsets.expired(partition, internal=redelivered)
        if expired is not None:
            start, records = expired
            return self._halt(LostPosition.expired(partition, records, "handled"), start)
        start, starting = (
            (self._first_offsets.internal(partition), False) if redelivered else self._first_offsets.source(partition)
        )
        progress = self._first_offsets.new_progress(partition, start, self._author)
        progress.max_waiting = self._max_in_place
        assigned = AssignedPartition(partition, route, redelivered, progress, dirty=True, starting=starting)
        if assigned.starting:
            self._starting.append(assigned)
        return assigned
