"""Writes batches, one at a time while the next one is collected, and handles aborted writes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.halted_partitions import HaltedPartitions
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import WorkerObserver
from kafka_redelivery.consumers.writes.abort_deadline import AbortDeadline
from kafka_redelivery.consumers.writes.aborted_write import AbortedWrite, Settlement
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.outcomes import Outcomes
from kafka_redelivery.consumers.writes.refusals import Refusals
from kafka_redelivery.consumers.writes.tally import Tally
from kafka_redelivery.consumers.writes.write_limits import WriteLimits
from kafka_redelivery.topology.policy.acknowledgement import LazyAcknowledgement
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import MembershipOutdatedError, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import BackgroundWriter, Message, Partition

_log = logging.getLogger(__name__)

LINGER_S = 0.01
"""Longest time that outcomes wait for further ones that are being handled."""

MAX_REST_S = 0.05
"""Longest pause after a write, unless the next batch is full."""


class Committer:
    """Collects outcomes into a batch and writes it. Owned by the polling thread."""

    def __init__(
        self,
        dependencies: BatchDependencies,
        writer: BackgroundWriter,
        observer: WorkerObserver,
        max_records: int,
        max_bytes: int = 2**24,
        lazy: LazyAcknowledgement | None = None,
        halted: HaltedPartitions | None = None,
        is_listed: Callable[[str], bool] = frozenset[str]().__contains__,
    ) -> None:
        """Prepare.

        Args:
            dependencies: shared by all batches.
            writer: writes one batch at a time.
            observer: receives every committed and aborted write.
            max_records: number of outcomes that make a batch full.
            max_bytes: bytes of records and outputs that make a batch full.
            lazy: delays successes, which are then acknowledged together; ``None`` = no delay.
            halted: receives the partitions that need a record which the broker refuses.
            is_listed: whether ``outputs`` lists a topic; called with those that do not exist.
        """
        self._halted = HaltedPartitions() if halted is None else halted
        self._refusals = Refusals(dependencies, writer, observer, self._halted, is_listed)
        self._lazy = lazy
        self._committed_at_s = monotonic_s()
        self._dependencies = dependencies
        self._writer = writer
        self._observer = observer
        self._limits = WriteLimits(max_records, max_bytes)
        self._kept: deque[Outcomes] = deque()
        """Outcomes that an aborted write has left, and those behind them; the batch takes the oldest first."""

        self._abort_deadline = AbortDeadline(endures=True)
        self._collecting_since_s = 0.0
        self._resting_until_s = 0.0
        self._began_s = 0.0
        self._writing: Batch | None = None
        """The batch being written. The progress of its partitions includes its outcomes; an abort voids them."""

        self._checkpoints: Mapping[Partition, Checkpoint] = {}
        self._starting: list[AssignedPartition] = []
        """The partitions whose first offset is in the write."""

        self.repeating = False
        """Whether outcomes of an aborted write are written again."""

        self._aborted: AbortedWrite | None = None
        """The write that was aborted last, until it is settled."""

        self.unreadable: Collection[str] = ()
        """The topics whose offsets the last aborted write could not commit, because the user may not read them."""

        self.batch = Batch(dependencies, self._kept, self._limits)

    @property
    def writing(self) -> bool:
        """Whether a write or a trial is under way whose end the committer has not seen."""
        return self._writing is not None or self._halted.trying

    @property
    def write_began_s(self) -> float | None:
        """When the write under way began (monotonic); ``None`` if none is under way."""
        return self._writer.began_s

    @property
    def backing_off(self) -> bool:
        """Whether the pause after an aborted write has not passed, so that no write may begin."""
        return self._abort_deadline.pause_left_s > 0

    @property
    def full(self) -> bool:
        """Whether the batch must be written before anything is added to it."""
        return bool(self._kept) or self._limits.full(self.batch.size, self.batch.bytes)

    @property
    def bytes(self) -> int:
        """Size of the outcomes that are not committed yet."""
        kept = sum(each.bytes for each in self._kept)
        return kept + self.batch.bytes + (0 if self._writing is None else self._writing.bytes)

    def should_write(self, *, more_to_come: bool) -> bool:
        """Whether to begin a write now.

        Never while a write is under way. A full batch and a halt are written immediately. Other batches wait after a
        write for as long as that write took, at most :data:`MAX_REST_S`, so that small writes do not load the broker.
        Then they are written when no more outcomes are to be expected, or after :data:`LINGER_S`.

        Args:
            more_to_come: whether records are being handled or wait for a slot.
        """
        if not self.batch.size:
            self._collecting_since_s = 0.0
            return False
        now = monotonic_s()
        self._collecting_since_s = self._collecting_since_s or now
        if self.writing or self.backing_off:
            return False
        if self.full or self.batch.halts:
            return True
        if self._lazy is not None and not self.batch.urgent:
            return self._lazy.now(self.batch.size, self._unacknowledged_ms())
        return now >= self._resting_until_s and (not more_to_come or now - self._collecting_since_s >= LINGER_S)

    def write_due_in_s(self, max_s: float) -> float:
        """Return the seconds until the batch has to be written if nothing is added to it, at most ``max_s``."""
        if not self.batch.size:
            return max_s
        if self._lazy is None or self.batch.urgent or self.full or self.batch.halts:
            return min(max_s, self._abort_deadline.pause_left_s)
        left_ms = self._lazy.left_ms(self._unacknowledged_ms())
        return max_s if left_ms is None else min(max_s, left_ms / 1000)

    def _unacknowledged_ms(self) -> int:
        return round((monotonic_s() - self._committed_at_s) * 1000)

    @property
    def halting(self) -> bool:
        """Whether the worker halts once the outcomes so far are written, so that no further record may be started."""
        writing = self._writing is not None and self._writing.halts
        return bool(self.batch.halts or writing or any(each.halts for each in self._kept))

    def decide_refused(self, assigned: AssignedPartition, records: list[Message]) -> list[Message]:
        """Decide about fetched records whose earlier write the broker refused.

        Returns:
            The records that have to be handled, among them those that now wait in place.
        """
        failures = self._dependencies.write_failures
        if not failures:
            return records
        batch = self.batch
        refused = [record for record in records if (assigned.partition, record.offset()) in failures]
        for record in refused:
            failure = failures[assigned.partition, record.offset()]
            batch.add_failure(assigned, record, lineage_of(assigned, record), failure)
        in_place = [record for _, record in batch.in_place]
        batch.in_place.clear()
        return [record for record in records if record not in refused or record in in_place]

    def try_halted(self, *, write_waits: bool) -> bool:
        """Begin to try the refused record of a halted partition, if one is due and no write is under way.

        Args:
            write_waits: whether a write is to begin now. Trials and writes take turns.

        Returns:
            Whether a trial has begun.
        """
        return not self.writing and self._halted.begin_trial(self._writer, write_waits=write_waits)

    def begin(self, dirty: Iterable[AssignedPartition]) -> None:
        """Begin to write the batch, and start the next one. No write may be under way.

        Args:
            dirty: partitions whose position is committed even if the batch holds no outcome of them.

        Raises:
            Exception: the write has not begun. The caller must discard the progress of the partitions, because a later
                write would commit it.
        """
        batch = self.batch
        self._collecting_since_s = 0.0
        self._starting = []
        for assigned in dirty:
            batch.commit_position(assigned)
            if assigned.starting:
                self._starting.append(assigned)
        checkpoints = batch.checkpoints()
        self.batch = Batch(self._dependencies, self._kept, self._limits)  # the checkpoints exclude what it takes
        if not checkpoints and not batch.produced:
            return
        batch.add_journal_records()
        self._began_s = monotonic_s()
        self._writer.begin(batch.produced, checkpoints)
        self._writing, self._checkpoints = batch, checkpoints

    def await_write(self, within_s: float | None = 0.0) -> list[AssignedPartition] | None:
        """Wait for the end of the write under way.

        Args:
            within_s: longest time to wait, in seconds; ``None`` = no limit.

        Returns:
            ``None`` if no write is under way, if it has not ended, or if it was committed. If it was aborted, the
            partitions that halt; the caller calls :meth:`settle`, or rewinds all partitions to their committed offsets.

        Raises:
            HaltedError: the write contained a decision that halts the worker.
        """
        batch = self._writing
        if batch is None:
            self._halted.await_trial(self._writer, within_s)
            return None
        try:
            written = self._writer.result(within_s)
        except WriteRefusedError as refusal:
            refused = self._refusals.handle(batch, self._checkpoints, refusal)
            self.unreadable = refused.unreadable
            batch.forget_dead_letters(refused.committed)
            if refused.committed:
                seconds = monotonic_s() - self._began_s
                self._report_committed(batch, batch.tally_of(refused.committed), refused.committed, seconds)
            self._report_abort(batch, str(refused.error), counts=not refused.error.outside)
            return refused.halted
        except WriteAbortedError as error:
            self._aborted = AbortedWrite(batch, self._checkpoints, error)
            self.unreadable = self._aborted.unreadable
            if error.fenced:
                self._observer.fenced()
            self._report_abort(batch, str(error))
            self._abort_deadline.pause()
            return []
        finally:
            if not self._writer.busy:
                self._writing = None
        if written is not None:
            self._confirm(batch, self._checkpoints, written.seconds)
        return None

    def _confirm(self, batch: Batch, checkpoints: Mapping[Partition, Checkpoint], seconds: float) -> None:
        """Report a write that was committed."""
        self._abort_deadline.succeeded()
        self._limits.committed(seconds)
        self.repeating = bool(self._kept)
        self._committed_at_s = monotonic_s()
        self._resting_until_s = monotonic_s() + min(seconds, MAX_REST_S)
        for assigned in self._starting:
            assigned.starting = False
        for partition, checkpoint in checkpoints.items():
            batch.touched[partition].committed = checkpoint
        self._report_committed(batch, batch.tally, checkpoints, seconds)
        batch.raise_if_halted()

    def _report_committed(
        self, batch: Batch, tally: Tally, checkpoints: Mapping[Partition, Checkpoint], seconds: float
    ) -> None:
        """Report committed outcomes, and end what waited for them.

        Args:
            batch: the batch that contains them.
            tally: their numbers.
            checkpoints: the committed offsets.
            seconds: duration of the write.
        """
        self._drop_write_failures([each for each in batch.decided_outside_items if each[0] in checkpoints], checkpoints)
        self._halted.confirm(checkpoints)
        self._dependencies.report.add(tally.dropped)
        self._observer.committed(tally.report(seconds))

    @property
    def unsettled(self) -> list[Partition] | None:
        """The partitions whose committed offsets :meth:`settle` needs; ``None`` if no write can be repeated."""
        return None if self._aborted is None else self._aborted.owned

    def settle(self, committed: Mapping[Partition, Checkpoint | None]) -> Settlement:
        """Decide what becomes of an aborted write. If its offsets are unchanged, it will be repeated.

        Its outcomes, and those collected since, are kept. The next writes are smaller.

        Args:
            committed: the committed offsets of the :attr:`unsettled` partitions.

        Raises:
            HaltedError: the write was committed, and contained a decision that halts the worker.
        """
        aborted, self._aborted = self._aborted, None
        if aborted is None:
            return Settlement.UNKNOWN
        settlement = aborted.settle(committed)
        if settlement is Settlement.COMMITTED:
            self._confirm(aborted.batch, aborted.checkpoints, monotonic_s() - self._began_s)
        elif settlement is Settlement.UNCHANGED:
            batch, error = aborted.batch, aborted.error
            if batch.size and not (error.records_written or error.fenced or isinstance(error, MembershipOutdatedError)):
                self._limits.aborted(batch.size, batch.bytes)
            self._keep([*batch.take_back(error.unconfirmed), *self.batch.take_back()])
        else:
            self._aborted = aborted  # discarded next
        return settlement

    def _keep(self, outcomes: Iterable[Outcomes]) -> None:
        """Write these outcomes before all others, except for those of partitions that have left this worker."""
        kept = [*outcomes, *self._kept]
        self._kept.clear()
        for each in kept:
            if each.assigned.closed:
                self._dependencies.audits.forget(each.dead_letters())
            else:
                self._kept.append(each)
        self.repeating = bool(self._kept)
        self.batch = Batch(self._dependencies, self._kept, self._limits)

    def drop_closed(self) -> None:
        """Drop the outcomes of partitions that have left this worker. Their next owner handles the records again."""
        if any(each.assigned.closed for each in (*self.batch.outcomes, *self._kept)):
            self._keep(self.batch.take_back(write_under_way=self._writing is not None))

    def discard(self) -> None:
        """Discard all outcomes. Their records will be handled again."""
        if self._aborted is not None and not self._aborted.error.records_written:
            self._aborted.batch.forget_dead_letters()
        self._aborted = None
        self.batch.forget_dead_letters()
        for each in self._kept:
            self._dependencies.audits.forget(each.dead_letters())
        self._kept.clear()
        self.batch = Batch(self._dependencies, self._kept, self._limits)

    def forget(self, assigned: AssignedPartition) -> None:
        """Drop the audit and the write failures of a partition that is assigned or revoked.

        They would miss what other workers do.
        """
        topic, number = assigned.partition
        shared_by = self._dependencies.retry_topics.partitions[topic] if assigned.redelivered else None
        self._dependencies.audits.forget_partition(assigned.route.source, number, shared_by)
        failures = self._dependencies.write_failures
        for record in [record for record in failures if record[0] == assigned.partition]:
            del failures[record]

    def report(self, health: Health) -> None:
        """Log how many failures have no line of their own, and report whether writes are aborted for a long time."""
        self._dependencies.log.report_left_out()
        health.waiting("writes", self._abort_deadline.problem)
        self._observer.writes_failing(self._abort_deadline.failing_s)

    def close(self) -> None:
        """Release the writer."""
        self._dependencies.log.report_left_out(ending=True)
        self._writer.close()

    def _drop_write_failures(
        self, decided: Iterable[tuple[Partition, int]], checkpoints: Mapping[Partition, Checkpoint]
    ) -> None:
        """Drop the failures that were decided, even if their record waits in place, and those of finished records."""
        write_failures = self._dependencies.write_failures
        for record in decided:
            write_failures.pop(record, None)
        for partition, offset in list(write_failures):
            if partition in checkpoints and offset < checkpoints[partition].offset:
                del write_failures[partition, offset]

    def _report_abort(self, batch: Batch, cause: str, *, counts: bool = True) -> None:
        if counts:
            self._abort_deadline.aborted(cause)
        _log.warning("a write of %d outcomes (%d bytes) was aborted: %s", batch.size, batch.bytes, cause)
        self._observer.write_aborted(cause)
