"""The records of one task: handled, decided and written in transactions that may span several partitions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from threading import Event
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.consumers.telemetry.observers import Committed, HaltLabel
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import Refused, Repeat, Rewind, WriteLimits
from kafka_redelivery.consumers.writes.outcomes import Outcomes
from kafka_redelivery.consumers.writes.refusals import failure_of
from kafka_redelivery.pipeline.handler.items import Emitted, Handled
from kafka_redelivery.pipeline.handler.rows import Rows
from kafka_redelivery.pipeline.task.contract import Met, TaskOutages, TaskPlan
from kafka_redelivery.pipeline.task.runner import Runner
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.topology.wire.topic_mark import is_void
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.errors import MembershipOutdatedError, ReaderError, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord


class OpenPartition:
    """A partition whose records a task handles, from the first that it is given to the last write."""

    def __init__(
        self,
        partition: Partition,
        route: Route,
        first: int,
        committed: Checkpoint | None,
        *,
        redelivered: bool,
        mark: str = "",
        named_in_commits: bool = False,
    ) -> None:
        """Continue from the committed offset.

        Args:
            partition: the topic partition.
            route: the route of its topic.
            first: the first offset that the task was given.
            committed: the group's commit; ``None`` = there is none.
            redelivered: whether it is a partition of a ready topic.
            mark: the mark of its topic; empty if it is unknown.
            named_in_commits: whether commits name the topic.

        Raises:
            ReaderError: a ready topic has no committed offset.
            ProgressError: the metadata of the commit was not written by this project.
        """
        if committed is None and redelivered:
            topic, number = partition
            raise ReaderError(
                f"{topic}-{number} has no committed offset for this group, so records that wait there could be lost or "
                "repeated; run `redelivery topology check`, then `redelivery topology apply`"
            )
        self.unanswered: set[int] = set()
        """Offsets of the records that were sent to the handler and have no outcome yet."""

        progress = Progress(first) if committed is None else Progress.restore(committed.offset, committed.metadata)
        progress.mark = mark if named_in_commits else ""
        self.assigned = AssignedPartition(partition, route, redelivered, progress, committed, mark=mark)

    def has_room(self, rows: Rows) -> bool:
        """Whether the metadata of a commit has room for what these records and the unanswered ones may end in."""
        if not self.unanswered:
            return True
        progress = self.assigned.progress
        return progress.can_track(_bits(progress.next_offset - 1, rows))

    def unfinished(self, rows: Rows) -> Iterator[Rows]:
        """Yield the runs of records that are not finished. They count as unanswered from now on."""
        progress, offsets = self.assigned.progress, rows.offsets()
        if offsets[-1] - offsets[0] + 1 == len(offsets) and progress.track_range(offsets[0], len(offsets)):
            self.unanswered.update(offsets)
            yield rows
            return
        wanted = [offset >= progress.next_offset and progress.track(offset) for offset in offsets]
        self.unanswered.update(offset for offset, each in zip(offsets, wanted, strict=True) if each)
        first = None
        for index, each in enumerate((*wanted, False)):
            if each:
                first = index if first is None else first
            elif first is not None:
                yield rows[first:index]
                first = None


def fitting(rows: Rows) -> Rows:
    """Return the first of these records: so many that the metadata has room for them, whatever order they end in."""
    offsets, empty = rows.offsets(), Progress(0)
    if empty.can_track(HOLE_BITS + offsets[-1] - offsets[0]):
        return rows
    while len(rows) > 1 and not empty.can_track(_bits(offsets[0] - HOLE_BITS, rows)):
        rows = rows[: len(rows) // 2]
    return rows


def _bits(before: int, rows: Rows) -> int:
    """Return how many bits of metadata records may need behind an offset."""
    return sum(min(after - earlier, HOLE_BITS) for earlier, after in pairwise((before, *rows.offsets())))


_as_record: Final = cast("Callable[[tuple[object, ...]], ProducerRecord]", partial(tuple.__new__, ProducerRecord))
"""``ProducerRecord._make`` without a Python call for each record."""


@dataclass(slots=True, eq=False, kw_only=True)
class RowsOutcomes(Outcomes):
    """Outcomes of records that Spark has read."""

    tables: list[Emitted] = field(default_factory=list)
    """Records that the handler emitted, as Arrow columns."""

    def offsets(self) -> list[int]:
        """Return the offsets of all records."""
        messages = cast("Rows | list[Message]", self.messages)
        return messages.offsets() if isinstance(messages, Rows) else [each.offset() for each in messages]

    def emitted(self) -> tuple[list[ProducerRecord], list[int]]:
        """Return the emitted records, and for each the offset of the record that emitted it."""
        offsets = self.offsets()
        records: list[ProducerRecord] = []
        owners: list[int] = []
        for topic, partition, table in self.tables:
            rows, keys, values, headers = (table.column(number) for number in range(4))
            fields = zip(
                repeat(topic), repeat(partition), keys.to_pylist(), values.to_pylist(), _header_lists(headers),
                strict=False,
            )  # fmt: skip
            records += map(_as_record, fields)
            owners += map(offsets.__getitem__, rows.to_pylist())
        return records, owners

    def cut(self, first: int, end: int) -> Outcomes:
        """See :class:`Outcomes`."""
        self.messages = list(self.messages)
        part = cast("RowsOutcomes", Outcomes.cut(self, first, end))
        part.tables = []
        for each in self.tables:
            rows = each.table.column("row")
            table = each.table.filter(pc.and_(pc.greater_equal(rows, first), pc.less(rows, end)))
            shifted = pc.subtract(table.column("row"), pa.scalar(first, pa.int32()))
            part.tables.append(each._replace(table=table.set_column(0, "row", shifted)))
        return part

    def withdraw(self, index: int) -> None:
        """Drop what one of the records has emitted."""
        self.tables = [
            each._replace(table=each.table.filter(pc.not_equal(each.table.column("row"), index)))
            for each in self.tables
        ]  # fmt: skip


def _header_lists(headers: pa.Array) -> list[HeaderList | None] | repeat[None]:
    if headers.null_count == len(headers):
        return repeat(None)
    return [
        None if pairs is None else [(pair["key"], pair["value"]) for pair in pairs] for pairs in headers.to_pylist()
    ]


_MAX_RECORDS_PER_RUN: Final = 1_000
"""Records sent to the handler's process together. A vectorised handler is given as many as one write may hold."""

_WRITE_AFTER_S: Final = 1.0
"""Age of the oldest outcome after which a batch is written even if it is not full."""

_COLLECT_S: Final = 0.2

_PAUSE_AFTER_REFUSAL_S: Final = 0.2
"""Pause before a write is repeated that Kafka has refused for a cause outside its records."""


class DecidingRefusals:
    """Decides again about the records of a task that the broker has refused: the others are not handled again."""

    def handle(self, batch: Batch, error: WriteRefusedError) -> None:
        """Decide again about the records whose own fault it is.

        Raises:
            HaltedError: the broker refuses a dead letter, the outcome of one that was sent again, or the journal.
        """
        produced_for = batch.produced_for
        places = {
            (outcomes.assigned, offset): (outcomes, index)
            for outcomes in batch.outcomes
            for index, offset in enumerate(outcomes.offsets())
        }
        for refused in error.refused:
            consumed = produced_for[refused.index]
            if refused.cause.outside:
                continue
            if consumed is None:
                raise HaltedError(f"the broker refuses the journal: {refused.reason}")
            assigned, offset, role = consumed
            failure = failure_of(consumed, refused.reason)
            if failure is None:
                raise HaltedError(f"the broker refuses the {role} of {assigned.partition}@{offset}: {refused.reason}")
            outcomes, index = places[assigned, offset]
            cast("RowsOutcomes", outcomes).withdraw(index)
            batch.decide_again(outcomes, index, failure)


@dataclass(slots=True)
class TaskReport:
    """The writes of a task."""

    writes: list[Committed] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    """The cause of each aborted write."""

    outages: TaskOutages = field(default_factory=TaskOutages)

    def committed(self, details: Committed) -> None:
        """See :class:`OutcomeObserver`."""
        self.writes.append(details)

    def write_aborted(self, cause: str) -> None:
        """See :class:`ProcessObserver`."""
        self.aborted.append(cause)

    def writes_failing(self, seconds: float) -> None:
        """Not reported: a task gives up soon."""

    def fenced(self) -> None:
        """Not reported: a task that takes its id back goes on, and the driver reports its end otherwise."""

    def halted(self, cause: str) -> None:
        """Not reported: the driver does that when the task has ended."""

    def halted_partitions(self, numbers: Mapping[HaltLabel, int]) -> None:
        """Not reported: no partition of a task halts alone."""

    def paused(self, partitions: Mapping[str, int], applied: int) -> None:
        """Not reported: the driver gives a task no paused partition."""


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
        self.report = TaskReport()
        self._runner = runner
        self._handler = runner.handler
        self._plan = plan
        settings = plan.config.settings
        limits = settings.limits
        self._needs = {topic: frozenset(dict(section.dependencies)) for topic, section in settings.handlers.items()}
        """What each source depends on."""

        self._handler.attempt = plan.attempt
        self._vectorized = {topic for topic, handler in settings.handlers.items() if handler.vectorized}
        self._run = limits.batch_records
        self._writer = runner.writer(number, plan)
        self._committer = Committer(
            runner.dependencies,
            self._writer,
            self,
            self.report,
            # A second batch may be in the write in progress.
            WriteLimits(limits.batch_records, limits.buffer_bytes // 2),
            refusals=DecidingRefusals(),
        )
        self._partitions: dict[Partition, OpenPartition] = {}
        self._batch_since_s = monotonic_s()

    def add(self, parts: Sequence[Rows]) -> None:
        """Handle records, and write their outcomes whenever a batch is full or one second old.

        Raises:
            ReaderError: a ready topic has no committed offset.
            ProgressError: the metadata of a committed offset was not written by this project.
            HaltedError, TransportError: as in :meth:`finish`.
        """
        self._open(parts)
        for rows in parts:
            opened = self._partitions[rows.partition]
            if self._plan.attempt.only is not None:
                self._try(opened, rows, *self._plan.attempt.only)
                continue
            vectorized = opened.assigned.route.source in self._vectorized
            run = self._run if vectorized else min(_MAX_RECORDS_PER_RUN, self._run)
            left_over = rows
            while len(left_over):
                part = left_over[:run] if vectorized else fitting(left_over[:run])
                left_over = left_over[len(part) :]
                if self._leaves(opened, part):
                    continue
                self._collect_until(lambda: not self._handler.full and opened.has_room(part))  # noqa: B023 - called here
                for left in list(opened.unfinished(part)):
                    self._take(self._handler.handle(left))

    def _try(self, opened: OpenPartition, rows: Rows, partition: Partition, offset: int) -> None:
        """Have a single record handled. Those before it stay unfinished, and those behind it are not looked at."""
        tracked = rows[: bisect_right(rows.offsets(), offset)]
        if rows.partition != partition or not len(tracked):
            return
        for left in list(opened.unfinished(tracked)):
            opened.unanswered.intersection_update({offset})
            if offset in left.offsets():
                self._take(self._handler.handle(left.of([offset])))

    def _leaves(self, opened: OpenPartition, rows: Rows) -> bool:
        """Whether records stay without an outcome, because what their source needs was found away in this task."""
        waiting = self.report.outages.waiting
        name = next((each for each in self._needs[opened.assigned.route.source] if each in waiting), None)
        if name is not None:
            waiting[name] += sum(offset >= opened.assigned.progress.next_offset for offset in rows.offsets())
        return name is not None

    def finish(self) -> None:
        """Write the remaining outcomes and wait for the end of the write.

        Raises:
            HaltedError: a decision halts the query, the broker refuses a dead letter or the journal, or writes are
                aborted again and again.
            WriteAbortedError: another task handles these partitions.
            MembershipOutdatedError, WriterFencedError: the driver's membership in the group is outdated, or lost.
        """
        self._collect_until(lambda: not any(each.unanswered for each in self._partitions.values()))
        while self._committer.batch.size:
            self._begin()
        self._await_write()
        self._runner.dependencies.log.report_left_out(ending=True)

    def abandon(self) -> None:
        """Wait for the write in progress and ignore its result. The next task reads the committed offsets."""
        self._handler.abandon()
        if self._writer.busy:
            with suppress(Exception):
                self._writer.result(None)

    def _open(self, parts: Sequence[Rows]) -> None:
        """Read the committed offsets of the partitions that the task has had no records of."""
        firsts: dict[Partition, int] = {}
        for rows in parts:
            if rows.partition not in self._partitions:
                firsts.setdefault(rows.partition, rows[0].offset())
        for partition, committed in self.committed(firsts).items() if firsts else ():
            route, redelivered = self._runner.routes[partition.topic]
            self._partitions[partition] = OpenPartition(
                partition,
                route,
                firsts[partition],
                committed,
                redelivered=redelivered,
                mark=self._plan.marks.get(partition.topic, ""),
                named_in_commits=self._plan.named_in_commits,
            )

    def _collect_until(self, enough: Callable[[], bool]) -> None:
        """Take outcomes, and write them in time, until there are enough."""
        while not enough():
            self._take(self._handler.collect(_COLLECT_S))
            if self._committer.batch.size and self._is_full():
                self._begin()

    def _take(self, results: Iterator[Handled]) -> None:
        for handled in results:
            if self._needs[self._partitions[handled.records.partition].assigned.route.source]:
                self._note_outages(handled)
                if handled.outcomes.waits:
                    continue
            if not self._committer.batch.size:
                self._batch_since_s = monotonic_s()
            self._committer.batch.add_outcomes(self._outcomes_of(handled), handled.outcomes.failures)
            if self._is_full() or self._committer.batch.halts:
                self._begin()
            if handled.outcomes.critical:
                self._await_write()

    def _note_outages(self, handled: Handled) -> None:
        """Note what records say about the dependencies of their source."""
        rows, outcomes = handled
        noted, opened = self.report.outages, self._partitions[rows.partition]
        if outcomes.waits:
            noted.waiting[outcomes.waits] += outcomes.number
            opened.unanswered.difference_update(rows.offsets())
            if outcomes.met is not None:
                noted.met.append(Met(rows.partition, rows[0].offset(), outcomes.met))
            return
        if outcomes.number > len(outcomes.failures):
            noted.handled.add(opened.assigned.route.source)
        noted.failed |= {failure.dependency: failure for _, failure in outcomes.failures if failure.dependency}

    def _is_full(self) -> bool:
        return self._committer.full or monotonic_s() - self._batch_since_s > _WRITE_AFTER_S

    def _outcomes_of(self, handled: Handled) -> RowsOutcomes:
        rows, outcomes = handled
        opened = self._partitions[rows.partition]
        lineages = list(outcomes.lineages)
        if outcomes.failures:
            rows.prepare([index for index, _ in outcomes.failures])
        for index, failure in outcomes.failures:
            if failure.kind is FailureKind.BAD_HEADERS:
                with suppress(UnreadableHeadersError):
                    headers_of(rows[index])  # removes the headers, which cannot be read
            if opened.assigned.redelivered and index >= len(lineages):
                lineages.append(lineage_of(opened.assigned, rows[index]))  # its process died before it returned it
        over_ms = self._plan.attempt.over_ms.get(opened.assigned.route.source) if outcomes.lateness else None
        found = RowsOutcomes(
            assigned=opened.assigned,
            messages=cast("list[Message]", rows),
            size=rows.bytes,
            redelivered=opened.assigned.redelivered,
            lineages=lineages,
            lateness=outcomes.lateness,
            delayed_ms=None if over_ms is None else max(0, wall_clock_ms() - over_ms),
            seconds=outcomes.seconds,
            tables=list(outcomes.emitted),
        )
        opened.unanswered.difference_update(found.offsets())
        return found

    def _begin(self) -> None:
        """Wait for the end of the last write, then begin to write the batch while further records are handled."""
        self._await_write()
        if self._committer.batch.size:
            self._committer.begin(())

    def _await_write(self) -> None:
        """Wait for the end of the write in progress. If it is aborted, write all outcomes before this returns."""
        aborted = False
        while self._committer.writing:
            match end := self._committer.end(None):
                case Repeat(error) | Rewind(error) if isinstance(error, MembershipOutdatedError):
                    raise error
                case Rewind(error):
                    raise WriteAbortedError(f"another task has moved a committed offset of these partitions: {error}")
                case Repeat():
                    Event().wait(self._committer.pause_left_s)
                case Refused(refusal) if refusal.outside:
                    Event().wait(_PAUSE_AFTER_REFUSAL_S)
            aborted = aborted or isinstance(end, Repeat | Refused)
            if aborted and self._committer.batch.size:  # what is written again may need several writes
                self._committer.begin(())

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """Return the committed offsets, but for those that were committed in older topics of these names."""
        marks = self._plan.marks
        return {
            partition: None if found is None or is_void(found.metadata, marks.get(partition.topic, "")) else found
            for partition, found in self._runner.committed(partitions).items()
        }

    def forbid(self, topics: Iterable[str]) -> None:
        """Do nothing: the write is repeated, and the task gives up after a time."""
