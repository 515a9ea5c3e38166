"""The records of one partition in one task: handled, decided about, and written in transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final, NamedTuple, cast

from consumers.assignment import lineage_of
from consumers.batch import Batch, Owner
from consumers.clock import monotonic_s
from consumers.errors import HaltedError
from consumers.lane import Lane
from consumers.observer import Committed
from consumers.patience import Patience
from consumers.unit import Assigned
from pipeline.done import Done
from pipeline.rows import Rows
from pipeline.rows_unit import RowsUnit
from pipeline.runner import Runner
from pipeline.task_plan import TaskPlan
from topology.decision import Failure, FailureKind
from topology.progress import Checkpoint, Progress
from transport.errors import (
    MembershipOutdatedError,
    MissingOffsetError,
    TransportError,
    WriteRefusedError,
    WriterFencedError,
    WriteUndoneError,
)
from transport.message_headers import UnreadableHeadersError, headers_of
from transport.protocols import Message, Partition, Written

_log = logging.getLogger(__name__)

_RUN: Final = 1_000
"""So many records are sent to the handler's process at once, or as many as a write has if it takes them together."""

_WRITE_AFTER_S: Final = 1.0
"""What a slow handler has done is written so often."""

_AGAIN_S: Final = 0.2


class SupersededError(TransportError):
    """Another task has this partition, or has had it meanwhile. The micro-batch is to be run once more."""


class _UnderWay(NamedTuple):
    batch: Batch
    points: Mapping[Partition, Checkpoint]
    units: list[RowsUnit]
    write: Future[Written]


class PartitionRun:
    """From the first record of a task to its last write."""

    def __init__(self, runner: Runner, plan: TaskPlan, place: Partition, first: int) -> None:
        """Take the partition over, and see how far it is.

        Args:
            runner: of this process.
            plan: of the micro-batch.
            place: the partition.
            first: the first offset that the task was given.

        Raises:
            MissingOffsetError: a ready topic has no offset.
            TransportError: the broker does not answer.
            ProgressError: the commit carries metadata that is not ours.
        """
        self.writes: list[Committed] = []
        """What was written so far."""

        self.undone: list[str] = []
        """Of each write that was undone: why."""

        self._runner = runner
        self._plan = plan
        self._place = place
        self._first = first
        self._route, self._redelivered = runner.routes[place.topic]
        self._limit = plan.setup.settings.limits.batch_records
        self._most_bytes = plan.setup.settings.limits.buffer_bytes // 2  # as much again may be under way
        self._run = self._limit if plan.setup.section.vectorized else min(_RUN, self._limit)
        self._writer, self._fresh = runner.writer(place, plan)
        self._units: list[RowsUnit] = []
        """What the next write consists of, to make it anew if it is undone."""

        self._under_way: _UnderWay | None = None
        """The write that is being made while more is handled."""

        self._refused: list[tuple[Owner | None, str]] = []
        """Copies that the broker refused, and why."""

        self._in_hand: list[int] = []
        """Offsets that are seen and being handled; some have their outcome already."""

        self._patience = Patience()
        self._begun_s = monotonic_s()
        self._open(runner.committed(place))

    def add(self, rows: Rows) -> None:
        """Handle records, and write as they are done.

        Raises:
            HaltedError: a decision says so.
            TransportError: see :meth:`finish`.
        """
        for first in range(0, len(rows), self._run):
            runs = list(self._unfinished(rows[first : first + self._run]))
            self._in_hand = [offset for run in runs for offset in run.offsets()]
            for run in runs:
                self._handle(run)

    def finish(self) -> None:
        """Write what is left.

        Raises:
            HaltedError: a decision says so, a copy that may not be lost is refused, or no write goes through.
            SupersededError: another task has this partition.
            MembershipOutdatedError, WriterFencedError: of the driver's membership.
        """
        if self._batch.size:
            self._begin()
        self._settle()

    def abandon(self) -> None:
        """Wait for a write that is under way, whatever comes of it: who reads the group's offset next finds out."""
        if self._under_way is not None:
            wait([self._under_way.write])

    def _open(self, committed: Checkpoint | None) -> None:
        """Begin at a commit, with nothing to be written."""
        if committed is None and self._redelivered:
            topic, number = self._place
            raise MissingOffsetError(
                f"{topic}-{number} has no committed offset for this group, so what waits there could be lost or "
                "repeated; see `redelivery topology check`, mend with `topology apply`"
            )
        self._committed = committed
        progress = (
            Progress(self._first) if committed is None else Progress.restore(committed.offset, committed.metadata)
        )
        self._assigned = Assigned(self._place, self._route, self._redelivered, progress)
        self._lane = Lane(self._assigned, exclusive=True)
        self._batch = Batch(self._runner.shared)

    def _unfinished(self, rows: Rows) -> Iterator[Rows]:
        """Runs of those that are not finished yet; from here on they are seen."""
        progress, offsets = self._assigned.progress, rows.offsets()
        if offsets[-1] - offsets[0] + 1 == len(offsets) and progress.see_run(offsets[0], len(offsets)):
            yield rows
            return
        first = None
        for index, offset in enumerate(offsets):
            if offset >= progress.next_offset and progress.see(offset):
                first = index if first is None else first
            elif first is not None:
                yield rows[first:index]
                first = None
        if first is not None:
            yield rows[first:]

    def _handle(self, rows: Rows) -> None:
        position = 0
        for done in self._runner.handler.run(rows):
            unit = self._unit(rows[position : position + done.number], done)
            position += done.number
            if not self._units:
                self._begun_s = monotonic_s()
            self._units.append(unit)
            self._batch.add(unit)
            if self._is_full() or self._batch.halts:
                self._begin()
            if done.critical:
                self._settle()

    def _is_full(self) -> bool:
        batch = self._batch
        return (
            batch.size >= self._limit
            or batch.bytes >= self._most_bytes
            or monotonic_s() - self._begun_s > _WRITE_AFTER_S
        )

    def _unit(self, rows: Rows, done: Done) -> RowsUnit:
        lineages = list(done.lineages)
        for index, failure in done.failures:
            if failure.kind is FailureKind.BAD_HEADERS:
                with suppress(UnreadableHeadersError):
                    headers_of(rows[index])  # from now on it has none; see there
            if self._redelivered and index >= len(lineages):
                lineages.append(lineage_of(self._assigned, rows[index]))  # its process did not live to tell it
        return RowsUnit(
            self._lane,
            cast("list[Message]", rows),
            done.number,
            list(done.failures),
            [],
            lineages,
            list(done.lateness),
            list(done.seconds),
            rows.bytes,
            tables=list(done.emitted),
        )

    def _begin(self) -> None:
        """Begin to write the batch, once the last one is written; meanwhile the next records are handled."""
        self._settle()
        if not self._batch.size:
            return
        batch, self._batch = self._batch, Batch(self._runner.shared)
        units, self._units = self._units, []
        points = batch.checkpoints()
        batch.close()
        write = self._runner.beside.submit(self._writer.write, batch.copies, points, member=self._plan.member)
        self._under_way = _UnderWay(batch, points, units, write)

    def _settle(self) -> None:
        """See the write under way to its end. If it is undone, all that there is is written before more is handled."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        if self._ends(under_way.batch, under_way.points, under_way.write.result):
            return
        self._units = under_way.units + self._units
        if self._done_after_all(under_way.points[self._place], under_way.units):
            self._end(under_way.batch, under_way.points[self._place], 0.0)
        elif self._batch.size:
            self._write()

    def _write(self) -> None:
        """Write the batch here and now, until it is written."""
        while True:
            batch, units = self._batch, self._units
            points = batch.checkpoints()
            batch.close()
            write = partial(self._writer.write, batch.copies, points, member=self._plan.member)
            self._units = []
            if self._ends(batch, points, write):
                self._batch = Batch(self._runner.shared)
                return
            self._units = units
            if self._done_after_all(points[self._place], units):
                self._units, self._batch = [], Batch(self._runner.shared)
                self._end(batch, points[self._place], 0.0)
                return

    def _ends(self, batch: Batch, points: Mapping[Partition, Checkpoint], write: Callable[[], Written]) -> bool:
        """Whether a write has ended well; if not, what was wrong with it is seen to, as far as it can be."""
        try:
            written = write()
        except WriteRefusedError as error:
            owners = batch.owners
            self._refused += [(owners[refusal.index], refusal.reason) for refusal in error.refusals]
            self._note_undone(str(error))
            return False
        except MembershipOutdatedError:
            raise
        except WriteUndoneError as error:
            self._note_undone(str(error))
            Event().wait(_AGAIN_S)
            return False
        except WriterFencedError as error:
            if error.as_member or self._fresh:
                raise
            self._writer, self._fresh = self._runner.take_over(self._place, self._writer), True
            return False
        self._end(batch, points[self._place], written.seconds)
        return True

    def _done_after_all(self, point: Checkpoint, units: Sequence[RowsUnit]) -> bool:
        """Go back to what is committed, and make the batch anew from all units, unless that is what was to be written.

        Args:
            point: what the write would have committed.
            units: what it consisted of; they are left out if it is done.
        """
        refused, self._refused = self._refused, []
        for owner, reason in refused:
            self._judge(owner, reason)
        before, committed = self._committed, self._runner.committed(self._place)
        if committed == point:
            self._units = self._units[len(units) :]
            return True
        if committed != before:
            raise SupersededError(
                f"{self._place.topic}-{self._place.number} was at {before}, is at {committed}, and not by this task"
            )
        self._open(committed)
        progress = self._assigned.progress
        for unit in self._units:
            for offset in unit.offsets():
                progress.see(offset)
        for offset in self._in_hand:
            if offset >= progress.next_offset:
                progress.see(offset)
        for unit in self._units:
            unit.lane = self._lane
            self._batch.add(unit)
        return False

    def _end(self, batch: Batch, point: Checkpoint, seconds: float) -> None:
        self._patience.succeeded()
        self._fresh = True  # it is ours now: whoever fences it from here on has the partition
        self._committed = point
        self.writes.append(batch.committed(seconds))
        if batch.halts:
            assigned, offset, failure = batch.halts[0]
            place = assigned.partition
            raise HaltedError(
                f"{failure.exception}: {failure.message}; nothing is committed past "
                f"{place.topic}-{place.number}@{offset}"
            )

    def _note_undone(self, cause: str) -> None:
        self.undone.append(cause)
        self._patience.undone(cause)
        _log.warning("going back to the committed offset of %s-%d: %s", *self._place, cause)

    def _judge(self, owner: Owner | None, reason: str) -> None:
        """Let a record whose copy is refused have the outcome that this means.

        Raises:
            HaltedError: it is the journal, or a dead letter, which may not be lost.
        """
        if owner is None:
            raise HaltedError(f"the broker refuses the journal: {reason}")
        where = f"{self._place.topic}-{self._place.number}@{owner.offset}"
        _log.warning("the %s of %s is refused: %s", owner.role, where, reason)
        if owner.role == "dead letter":
            raise HaltedError(f"the dead letter of {where} is refused: {reason}")
        kind = FailureKind.RAISED if owner.role == "output" else FailureKind.UNDELIVERABLE
        failure = Failure(kind, "WriteRefused", reason)
        for unit in self._units:
            offsets = unit.offsets()
            if offsets[0] <= owner.offset <= offsets[-1]:
                unit.refuse(owner.offset, failure)
