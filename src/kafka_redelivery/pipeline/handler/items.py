"""The work items of a handler's process, their outcomes as the parent gets them, and the records that are emitted."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import pyarrow as pa

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.child import NO_CALL, SharedPosition
from kafka_redelivery.pipeline.handler.rows import HEADERS, Rows, packed, unpacked
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord


class PublishedItem(WorkItem):
    """A work item that publishes the record that it is at, and the start of the call that has a deadline.

    While it is in its slot, ``position`` and ``started_s`` are also stored in memory that the parent reads.
    """

    __slots__ = ("_grace_s", "_offsets", "_position", "_started_s", "number", "place", "singly")

    def __init__(
        self, item: WorkItem, offsets: list[int], number: int, place: SharedPosition, *, grace_s: float, singly: bool
    ) -> None:
        """Publish an item from its start on.

        Args:
            item: the work item.
            offsets: the offsets of its records.
            number: stands for its partition.
            place: where it publishes.
            grace_s: how much later the published call starts.
            singly: whether a vectorised handler is called with one record at a time.
        """
        self.number, self.place, self.singly = number, place, singly
        self._offsets, self._grace_s = offsets, grace_s
        self._position, self._started_s = 0, 0.0
        super().__init__(item.lane, item.messages)

    @property
    def position(self) -> int:
        """See :class:`WorkItem`. Publishes the next record."""
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self._position = value
        since_s = self._started_s
        if value == len(self.messages):
            self.place.clear()
        elif since_s:
            self.place.set(self.number, self._offsets[value], 1, since_s + self._grace_s)

    @property
    def started_s(self) -> float:
        """See :class:`WorkItem`. Publishes when a call starts, and when what is done for the record has no deadline."""
        return self._started_s

    @started_s.setter
    def started_s(self, value: float) -> None:
        before, self._started_s = self._started_s, value
        if bool(before) != bool(value):
            since_s = value + self._grace_s if value else NO_CALL
            self.place.set(self.number, self._offsets[self._position], 1, since_s)

    def leave_slot(self) -> None:
        """See :class:`WorkItem`. No record is being handled any more."""
        self._started_s = 0.0
        self.place.clear()

    def offsets(self) -> list[int]:
        """See :class:`WorkItem`."""
        return self._offsets[: self._position]

    def next_offset(self) -> int:
        """Return the offset of the first record without an outcome."""
        return self._offsets[self._position]


class Runs:
    """The records of a single slot, as they were given: those of a partition one run after the other.

    Takes the place of :class:`Lanes`, whose steps for each record take longer than a fast handler.
    """

    def __init__(self) -> None:
        self.held: AbstractSet[Partition] = frozenset()
        self.one_by_one = False
        """See :class:`Lanes`. Not used: there is one call at a time anyway."""

        self._lanes: dict[AssignedPartition, Lane] = {}
        self._waiting: deque[WorkItem] = deque()

    def open(self, assigned: AssignedPartition) -> None:
        """See :class:`Lanes`."""
        self._lanes[assigned] = Lane(assigned, exclusive=True)

    def hold(self, partitions: AbstractSet[Partition]) -> None:
        """See :class:`Lanes`."""
        self.held = partitions

    def due_in_s(self, max_s: float) -> float:
        """See :class:`Lanes`. No record waits in place."""
        return max_s

    def add(self, assigned: AssignedPartition, messages: list[Message]) -> None:
        """Add a run of records of one partition."""
        self._waiting.append(WorkItem(self._lanes[assigned], messages))

    def max_queued(self, slots: int) -> int:
        """Return how many runs to queue behind those in so many slots."""
        return slots

    def next_item(self) -> WorkItem | None:
        """Return the next run of a partition of which none is in the slot."""
        for index, item in enumerate(self._waiting):
            if not item.lane.in_flight and item.lane.assigned.partition not in self.held:
                del self._waiting[index]
                item.lane.in_flight = 1
                return item
        return None

    def put_back(self, item: WorkItem) -> None:
        """Take a run back. What is left of it comes first."""
        item.lane.in_flight = 0
        if item.position < len(item.messages):
            self._waiting.appendleft(WorkItem(item.lane, item.messages[item.position :]))

    def split(self, item: WorkItem, limit_s: float) -> WorkItem | None:
        """See :class:`Lanes`. There is no other slot for the records behind a slow one."""
        del item, limit_s
        return None


class Emitted(NamedTuple):
    """Records that a handler emitted to one topic: columns ``row``, ``key``, ``value``, ``headers``.

    ``row`` is the index of the record whose handling emitted the record.
    """

    topic: str
    partition: int | None
    table: pa.RecordBatch

    def __reduce__(self) -> tuple[Callable[..., Emitted], tuple[str, int | None, pa.Buffer]]:
        """Pickle the table as one buffer, see :meth:`Rows.__reduce__`."""
        return _unpacked, (self.topic, self.partition, packed(self.table))


def _unpacked(topic: str, partition: int | None, body: pa.Buffer) -> Emitted:
    return Emitted(topic, partition, unpacked(body))


class Outcomes(NamedTuple):
    """Outcomes of some records. Indexes count from the first of them.

    The fields mean the same as those of :class:`WorkItem`; a record without a failure has succeeded.
    """

    number: int
    failures: Sequence[tuple[int, Failure]] = ()
    lineages: Sequence[Lineage] = ()
    lateness: Sequence[tuple[int, int]] = ()
    seconds: Sequence[float] = ()
    emitted: Sequence[Emitted] = ()
    waits: str = ""
    """The dependency that is away, so that none of these records has an outcome; empty if they have."""

    met: Failure | None = None
    """How the handler found it away, if this is the record that did."""

    @property
    def critical(self) -> bool:
        """Whether a failure is critical: no further record is handled."""
        return any(failure.kind is FailureKind.CRITICAL for _, failure in self.failures)

    @classmethod
    def of(cls, item: WorkItem) -> Outcomes:
        """Return the outcomes of the handled records of a work item."""
        emitted = list(_as_columns(item)) if item.outputs else ()
        return cls(item.position, item.failures, item.lineages, item.lateness, item.seconds, emitted)


class Handled(NamedTuple):
    """Records of one partition that were handled, with their outcomes."""

    records: Rows
    outcomes: Outcomes


def _as_columns(item: WorkItem) -> Iterator[Emitted]:
    """Yield the outputs as Arrow columns, which pickle faster than objects; in order within a topic partition."""
    rows = [index for index, records in item.outputs for _ in records]
    emitted = [record for _, records in item.outputs for record in records]
    destinations = {(topic, partition) for topic, partition, *_ in emitted}
    if len(destinations) == 1:
        yield _emitted(rows, emitted)
        return
    found: defaultdict[tuple[str, int | None], tuple[list[int], list[ProducerRecord]]] = defaultdict(lambda: ([], []))
    for row, record in zip(rows, emitted, strict=True):
        its_rows, its_records = found[record.topic, record.partition]
        its_rows.append(row)
        its_records.append(record)
    for its_rows, its_records in found.values():
        yield _emitted(its_rows, its_records)


def _emitted(rows: Sequence[int], records: Sequence[ProducerRecord]) -> Emitted:
    _, _, keys, values, headers = zip(*records, strict=True)
    columns = [pa.array(rows, pa.int32()), pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    columns.append(_headers_column(headers))
    topic, partition = records[0].topic, records[0].partition
    return Emitted(topic, partition, pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"]))


def _headers_column(lists: Sequence[HeaderList | None]) -> pa.Array:
    if not any(lists):
        return pa.nulls(len(lists), HEADERS)
    pairs = [None if not each else [{"key": name, "value": value} for name, value in each] for each in lists]
    return pa.array(pairs, HEADERS)
