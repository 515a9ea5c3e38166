"""The records of one task: handled, decided and written in transactions that may span several partitions."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from threading import Event
from typing import Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import lineage_of
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.telemetry.observers import Committed
from kafka_redelivery.consumers.writes.abort_deadline import AbortDeadline
from kafka_redelivery.consumers.writes.batch import Batch, ProducedFor
from kafka_redelivery.consumers.writes.refused_records import failure_of_refused_record, judged
from kafka_redelivery.pipeline.handler.outcomes import Emitted, Handled
from kafka_redelivery.pipeline.handler.rows import Row, Rows
from kafka_redelivery.pipeline.task.contract import TaskPlan
from kafka_redelivery.pipeline.task.open_partition import OpenPartition
from kafka_redelivery.pipeline.task.runner import Runner
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import is_void
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.errors import (
    MembershipOutdatedError,
    TransportError,
    WriteAbortedError,
    WriteRefusedError,
    WriterFencedError,
)
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, WriteResult

_as_record: Final = cast("Callable[[tuple[object, ...]], ProducerRecord]", partial(tuple.__new__, ProducerRecord))
"""``ProducerRecord._make`` without a Python call for each record."""


@dataclass(slots=True, eq=False)
class RowsWorkItem(WorkItem):
    """A :class:`WorkItem` whose records all have their outcomes."""

    tables: list[Emitted] = field(default_factory=list)
    """Records that the handler emitted, as Arrow columns."""

    _offsets: list[int] = field(default_factory=list)

    def offsets(self) -> list[int]:
        """Return the offsets of all records."""
        if not self._offsets:
            messages = cast("Rows | list[Row]", self.messages)
            self._offsets = messages.offsets() if isinstance(messages, Rows) else [each.offset() for each in messages]
        return self._offsets

    def emitted(self, held: Container[int] = ()) -> tuple[list[ProducerRecord], list[int]]:
        """Return the emitted records, and for each the offset of the record that emitted it.

        ``held`` has no effect: every record of this item is written.
        """
        del held
        offsets = self.offsets()
        records = [record for _, outputs in self.outputs for record in outputs]
        owners = [offsets[index] for index, outputs in self.outputs for _ in outputs]
        for topic, partition, table in self.tables:
            rows, keys, values, headers = (table.column(number) for number in range(4))
            fields = zip(
                repeat(topic), repeat(partition), keys.to_pylist(), values.to_pylist(), _header_lists(headers),
                strict=False,
            )  # fmt: skip
            records += map(_as_record, fields)
            owners += map(offsets.__getitem__, rows.to_pylist())
        return records, owners

    def refuse(self, offset: int, failure: Failure) -> None:
        """Record a failure for one of the records in place of its outcome."""
        index = self.offsets().index(offset)
        self.outputs = [entry for entry in self.outputs if entry[0] != index]
        self.tables = [
            each._replace(table=each.table.filter(pc.not_equal(each.table.column("row"), index)))
            for each in self.tables
        ]  # fmt: skip
        others = [entry for entry in self.failures if entry[0] != index]
        self.failures = sorted([*others, (index, failure)], key=lambda entry: entry[0])


def _header_lists(headers: pa.Array) -> list[HeaderList | None] | repeat[None]:
    if headers.null_count == len(headers):
        return repeat(None)
    return [
        None if pairs is None else [(pair["key"], pair["value"]) for pair in pairs] for pairs in headers.to_pylist()
    ]


_log = logging.getLogger(__name__)

_MAX_RECORDS_PER_RUN: Final = 1_000
"""Records sent to the handler's process together. A vectorised handler is given as many as one write may hold."""

_WRITE_AFTER_S: Final = 1.0
"""Age of the oldest outcome after which a batch is written even if it is not full."""

_COLLECT_S: Final = 0.2

_PAUSE_AFTER_ABORT_S: Final = 0.2


class SupersededError(TransportError):
    """Another task handles these partitions, or did so in the meantime. The micro-batch must be run again."""


class _PendingWrite(NamedTuple):
    batch: Batch
    points: Mapping[Partition, Checkpoint]
    items: list[RowsWorkItem]
    write: Future[WriteResult]


class TaskRun:
    """Handles the records of a task, from the first record to the last write."""

    def __init__(self, runner: Runner, plan: TaskPlan, number: int) -> None:
        """Take the task's transactional id over.

        Args:
            runner: the runner of this process.
            plan: the plan of the micro-batch.
            number: the number of the task in its micro-batch.

        Raises:
            TransportError: the broker does not answer.
        """
        self.writes: list[Committed] = []
        """Reports of the committed writes."""

        self.aborted: list[str] = []
        """The cause of each aborted write."""

        self._runner = runner
        self._handler = runner.handler
        self._plan = plan
        self._number = number
        self._listed = frozenset(output.topic for output in plan.config.settings.outputs)
        self._limit = plan.config.settings.limits.batch_records
        self._max_bytes = plan.config.settings.limits.buffer_bytes // 2  # a second batch may be in the write under way
        self._run = self._limit if plan.config.section.vectorized else min(_MAX_RECORDS_PER_RUN, self._limit)
        self._writer, self._owns_id = runner.writer(number, plan)
        self._partitions: dict[Partition, OpenPartition] = {}
        self._batch = Batch(runner.dependencies)
        self._items: list[RowsWorkItem] = []
        """Items in the batch, from which an aborted batch is built again."""

        self._pending: _PendingWrite | None = None
        """The write that is made while further records are handled."""

        self._refused: list[tuple[ProducedFor | None, str]] = []
        """Consumed records for which the broker refused a produced one, and the broker's reason."""

        self._abort_deadline = AbortDeadline()
        self._batch_since_s = monotonic_s()

    def add(self, parts: Sequence[Rows]) -> None:
        """Handle records, and write their outcomes whenever a batch is full or one second old.

        Raises:
            MissingOffsetError: a ready topic has no committed offset.
            ProgressError: the metadata of a committed offset was not written by this project.
            HaltedError, TransportError: as in :meth:`finish`.
        """
        self._open(parts)
        for rows in parts:
            opened = self._partitions[rows.partition]
            for first in range(0, len(rows), self._run):
                part = rows[first : first + self._run]
                self._collect_until(lambda: not self._handler.full and opened.has_room(part))  # noqa: B023 - called here
                for run in list(opened.unfinished(part)):
                    self._take(self._handler.handle(run))

    def finish(self) -> None:
        """Write the remaining outcomes and wait for the end of the write.

        Raises:
            HaltedError: a decision halts the query, the broker refuses a dead letter or the journal, or writes are
                aborted again and again.
            SupersededError: another task handles these partitions.
            MembershipOutdatedError, WriterFencedError: the driver's membership in the group is outdated, or lost.
        """
        self._collect_until(lambda: not any(each.unanswered for each in self._partitions.values()))
        if self._batch.size:
            self._begin()
        self._finish_pending()
        self._runner.dependencies.log.report_left_out(ending=True)

    def abandon(self) -> None:
        """Wait for the write under way and ignore its result. The next task reads the committed offsets."""
        self._handler.abandon()
        if self._pending is not None:
            wait([self._pending.write])

    def _open(self, parts: Sequence[Rows]) -> None:
        """Read the committed offsets of the partitions that the task has had no records of."""
        firsts: dict[Partition, int] = {}
        for rows in parts:
            if rows.partition not in self._partitions:
                firsts.setdefault(rows.partition, rows[0].offset())
        if not firsts:
            return
        committed = self._committed(firsts)
        for partition, first in firsts.items():
            route, redelivered = self._runner.routes[partition.topic]
            self._partitions[partition] = OpenPartition(
                partition,
                route,
                first,
                committed[partition],
                redelivered=redelivered,
                mark=self._plan.marks.get(partition.topic, ""),
                named_in_commits=self._plan.named_in_commits,
            )

    def _committed(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        """Return the committed offsets, but for those that were committed in older topics of these names."""
        marks = self._plan.marks
        return {
            partition: None if found is None or is_void(found.metadata, marks.get(partition.topic, "")) else found
            for partition, found in self._runner.committed(partitions).items()
        }

    def _collect_until(self, enough: Callable[[], bool]) -> None:
        """Take outcomes, and write them in time, until there are enough."""
        while not enough():
            self._take(self._handler.collect(_COLLECT_S))
            if self._batch.size and self._is_full():
                self._begin()

    def _take(self, results: Iterator[Handled]) -> None:
        for handled in results:
            item = self._item_of(handled)
            if not self._items:
                self._batch_since_s = monotonic_s()
            self._items.append(item)
            self._batch.add(item)
            if self._is_full() or self._batch.halts:
                self._begin()
            if handled.outcomes.critical:
                self._finish_pending()

    def _is_full(self) -> bool:
        batch = self._batch
        return (
            batch.size >= self._limit
            or batch.bytes >= self._max_bytes
            or monotonic_s() - self._batch_since_s > _WRITE_AFTER_S
        )

    def _item_of(self, handled: Handled) -> RowsWorkItem:
        opened, rows, outcomes = self._partitions[handled.partition], handled.records, handled.outcomes
        lineages = list(outcomes.lineages)
        if outcomes.failures and isinstance(rows, Rows):
            rows.prepare([index for index, _ in outcomes.failures])
        for index, failure in outcomes.failures:
            if failure.kind is FailureKind.BAD_HEADERS:
                with suppress(UnreadableHeadersError):
                    headers_of(rows[index])  # removes the headers, which cannot be read
            if opened.assigned.redelivered and index >= len(lineages):
                lineages.append(lineage_of(opened.assigned, rows[index]))  # its process died before it returned it
        item = RowsWorkItem(
            opened.lane,
            cast("list[Message]", rows),
            outcomes.number,
            list(outcomes.failures),
            [],
            lineages,
            list(outcomes.lateness),
            list(outcomes.seconds),
            handled.bytes,
            tables=list(outcomes.emitted),
        )
        opened.unanswered.difference_update(item.offsets())
        return item

    def _begin(self) -> None:
        """Wait for the end of the last write, then begin to write the batch while further records are handled."""
        self._finish_pending()
        if not self._batch.size:
            return
        batch, self._batch = self._batch, Batch(self._runner.dependencies)
        items, self._items = self._items, []
        points = batch.checkpoints()
        batch.add_journal_records()
        write = self._runner.write_executor.submit(
            self._writer.write, batch.produced, points, group_metadata=self._plan.member
        )
        self._pending = _PendingWrite(batch, points, items, write)

    def _finish_pending(self) -> None:
        """Wait for the write under way. If it is aborted, write all collected outcomes before this returns."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        if self._is_committed(pending.batch, pending.points, pending.write.result):
            return
        self._items = pending.items + self._items
        if self._committed_after_all(pending.points, pending.items):
            self._note_commit(pending.batch, pending.points, 0.0)
        elif self._batch.size:
            self._write()

    def _write(self) -> None:
        """Write the batch in this thread, again and again until it is committed."""
        while True:
            batch, items = self._batch, self._items
            points = batch.checkpoints()
            batch.add_journal_records()
            write = partial(self._writer.write, batch.produced, points, group_metadata=self._plan.member)
            self._items = []
            if self._is_committed(batch, points, write):
                self._batch = Batch(self._runner.dependencies)
                return
            self._items = items
            if self._committed_after_all(points, items):
                self._items, self._batch = [], Batch(self._runner.dependencies)
                self._note_commit(batch, points, 0.0)
                return

    def _is_committed(
        self, batch: Batch, points: Mapping[Partition, Checkpoint], write: Callable[[], WriteResult]
    ) -> bool:
        """Wait for a write and return whether it was committed. If not, keep refusals and replace a fenced writer."""
        try:
            written = write()
        except WriteRefusedError as refusal:
            error = judged(refusal, batch, self._listed.__contains__)
            produced_for = batch.produced_for
            self._refused += [
                (produced_for[refused.index], refused.reason) for refused in error.refused if not refused.cause.outside
            ]
            self._report_abort(str(error))
            if error.outside:
                Event().wait(_PAUSE_AFTER_ABORT_S)
            return False
        except MembershipOutdatedError:
            raise
        except WriteAbortedError as error:
            self._report_abort(str(error))
            Event().wait(_PAUSE_AFTER_ABORT_S)
            return False
        except WriterFencedError as error:
            if error.as_member or self._owns_id:
                raise
            self._writer, self._owns_id = self._runner.take_over(self._number, self._writer), True
            return False
        self._note_commit(batch, points, written.seconds)
        return True

    def _committed_after_all(self, points: Mapping[Partition, Checkpoint], items: Sequence[RowsWorkItem]) -> bool:
        """Read the committed offsets again and rebuild the batch, unless the write turns out to be committed.

        Args:
            points: the offsets that the write would have committed.
            items: the items in the write; they are dropped if it was committed.

        Raises:
            SupersededError: another task has committed an offset.
        """
        refused, self._refused = self._refused, []
        for produced_for, reason in refused:
            (partition, offset), failure = failure_of_refused_record(produced_for, reason)
            self._replace_outcome(partition, offset, failure)
        committed = self._committed(points)
        if committed == points:
            self._items = self._items[len(items) :]
            return True
        for partition, found in committed.items():
            before = self._partitions[partition].committed
            if found != before:
                raise SupersededError(
                    f"another task moved the committed offset of {partition} from {before} to {found}"
                )
        self._rebuild()
        return False

    def _rebuild(self) -> None:
        """Build the batch again from its items, at the committed offsets."""
        unwritten: defaultdict[Partition, list[int]] = defaultdict(list)
        for item in self._items:
            unwritten[item.lane.assigned.partition] += item.offsets()
        for partition, offsets in unwritten.items():
            self._partitions[partition].rewind(offsets)
        self._batch = Batch(self._runner.dependencies)
        for item in self._items:
            self._batch.add(item)

    def _note_commit(self, batch: Batch, points: Mapping[Partition, Checkpoint], seconds: float) -> None:
        self._abort_deadline.succeeded()
        self._owns_id = True  # a process that fences the writer from now on has taken the task
        for partition, point in points.items():
            self._partitions[partition].committed = point
        self.writes.append(batch.report(seconds))
        batch.raise_if_halted()

    def _report_abort(self, cause: str) -> None:
        self.aborted.append(cause)
        self._abort_deadline.aborted(cause)
        _log.warning("write of task %d aborted, rewinding to the committed offsets: %s", self._number, cause)

    def _replace_outcome(self, partition: Partition, offset: int, failure: Failure) -> None:
        for item in self._items:
            if item.lane.assigned.partition == partition and offset in item.offsets():
                item.refuse(offset, failure)
