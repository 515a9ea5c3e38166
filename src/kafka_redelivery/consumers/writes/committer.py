"""Writes batches, one at a time while the next one is collected, and handles aborted writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import OutcomeObserver
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.engine import (
    AbortDeadline,
    Committed,
    End,
    Offsets,
    Refused,
    Repeat,
    Rewind,
    WriteEngine,
    WriteLimits,
)
from kafka_redelivery.consumers.writes.outcomes import Outcomes, Tally
from kafka_redelivery.consumers.writes.refusals import HaltingRefusals, Refusals
from kafka_redelivery.topology.policy.acknowledgement import LazyAcknowledgement
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import MembershipOutdatedError, WriteRefusedError
from kafka_redelivery.transport.protocols import BackgroundWriter, Message, Partition

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
        offsets: Offsets,
        observer: OutcomeObserver,
        limits: WriteLimits,
        lazy: LazyAcknowledgement | None = None,
        stops: Stops | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """Prepare.

        Args:
            dependencies: shared by all batches.
            writer: writes one batch at a time.
            offsets: shows what is committed.
            observer: receives every committed and aborted write.
            limits: number of outcomes, and bytes of records and outputs, that make a batch full.
            lazy: delays successes, which are then acknowledged together; ``None`` = no delay.
            stops: receives the partitions that need a record which the broker refuses.
            refusals: handles refused records of a process that gives up after a series of aborted writes; ``None`` =
                the process endures them, and partitions with refused records halt or are read again.
        """
        self._stops = Stops(observer, Health()) if stops is None else stops
        self.write_failures = dependencies.write_failures
        """See :class:`BatchDependencies`."""

        self._refusals = refusals or HaltingRefusals(self.write_failures, self._stops)
        self._lazy = lazy
        self._committed_at_s = monotonic_s()
        self._dependencies = dependencies
        self._writer = writer
        self._observer = observer
        self._limits = limits
        self._kept: deque[Outcomes] = deque()
        """Outcomes that an aborted write has left, and those behind them; the batch takes the oldest first."""

        self._engine: WriteEngine[Batch] = WriteEngine(
            writer, offsets, observer, AbortDeadline(endures=refusals is None)
        )
        """Has the batch being written. The progress of its partitions includes its outcomes; an abort voids them."""

        self._collecting_since_s = 0.0
        self._resting_until_s = 0.0
        self.repeating = False
        """Whether outcomes of an aborted write are written again."""

        self.batch = Batch(dependencies, self._kept, self._limits)

    @property
    def writing(self) -> bool:
        """Whether a write or a trial is under way whose end the committer has not seen."""
        return self._engine.writing is not None or self._stops.trying

    @property
    def pause_left_s(self) -> float:
        """Seconds until a write may begin after an aborted one."""
        return self._engine.deadline.pause_left_s

    @property
    def write_began_s(self) -> float | None:
        """When the write under way began (monotonic); ``None`` if none is under way."""
        return self._writer.began_s

    @property
    def backing_off(self) -> bool:
        """Whether the pause after an aborted write has not passed, so that no write may begin."""
        return self._engine.deadline.pause_left_s > 0

    @property
    def full(self) -> bool:
        """Whether the batch must be written before anything is added to it."""
        return bool(self._kept) or self._limits.full(self.batch.size, self.batch.bytes)

    @property
    def bytes(self) -> int:
        """Size of the outcomes that are not committed yet."""
        writing = self._engine.writing
        kept = sum(each.bytes for each in self._kept)
        return kept + self.batch.bytes + (0 if writing is None else writing.bytes)

    def should_write(self, *, more_to_come: bool) -> bool:
        """Whether to begin a write now. ``more_to_come``: whether records are being handled or wait for a slot.

        Never while a write is under way. A full batch and a halt are written immediately. Other batches wait after a
        write for as long as that write took, at most :data:`MAX_REST_S`, so that small writes do not load the broker.
        Then they are written when no more outcomes are to be expected, or after :data:`LINGER_S`.
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
            return min(max_s, self._engine.deadline.pause_left_s)
        left_ms = self._lazy.left_ms(self._unacknowledged_ms())
        return max_s if left_ms is None else min(max_s, left_ms / 1000)

    def _unacknowledged_ms(self) -> int:
        return round((monotonic_s() - self._committed_at_s) * 1000)

    @property
    def halting(self) -> bool:
        """Whether the worker halts once the outcomes so far are written, so that no further record may be started."""
        writing = self._engine.writing
        being_written = writing is not None and writing.halts
        return bool(self.batch.halts or being_written or any(each.halts for each in self._kept))

    def decide_refused(self, assigned: AssignedPartition, records: list[Message]) -> list[Message]:
        """Decide about fetched records whose earlier write the broker refused.

        Returns:
            The records that have to be handled, among them those that now wait in place.
        """
        batch, failures = self.batch, self.write_failures
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
        return not self.writing and self._stops.begin_trial(self._writer, write_waits=write_waits)

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
        batch.close(dirty)
        self.batch = Batch(self._dependencies, self._kept, self._limits)  # the checkpoints exclude what it takes
        if batch.checkpoints or batch.produced:
            self._engine.begin(batch)

    def end(self, within_s: float | None = 0.0, *, repeats: bool = True) -> End | None:
        """Wait for the end of the write in progress, and keep the outcomes of one that can be repeated.

        Its outcomes, and those collected since, are kept. The next writes are smaller.

        Args:
            within_s: longest time to wait, in seconds; ``None`` = no limit.
            repeats: whether outcomes may be written again.

        Returns:
            ``None`` if no write is in progress, or if it has not ended. After :class:`Rewind`, and after
            :class:`Refused` unless the refusals decide again, the caller rewinds all partitions to their committed
            offsets.

        Raises:
            HaltedError: the write was committed, and contained a decision that halts the worker.
        """
        batch = self._engine.writing
        if batch is None:
            self._stops.await_trial(self._writer, within_s)
            return None
        end = self._engine.end(within_s, repeats=repeats)
        match end:
            case Committed(seconds):
                self._confirm(batch, seconds)
            case Repeat(error):
                fault = error.records_written or error.fenced or isinstance(error, MembershipOutdatedError)
                if batch.size and not fault:
                    self._limits.aborted(batch.size, batch.bytes)
                self._keep([*batch.take_back(error.unconfirmed), *self.batch.take_back()])
            case Rewind(error):
                if not error.records_written:
                    batch.withdraw_dead_letters()
            case Refused(refusal):
                halting = self._refusals.handle(batch, refusal)
                if halting is None:
                    self._keep([*batch.take_back(), *self.batch.take_back()])
                else:
                    self._commit_rest(batch, refusal, halting)
        return end

    def _commit_rest(self, batch: Batch, refusal: WriteRefusedError, halting: Collection[Partition]) -> None:
        """Commit the partitions of a refused write whose records are all written, if any are."""
        rest: Mapping[Partition, Checkpoint] = {}
        if refusal.others_written:
            rest = {each: batch.checkpoints[each] for each in batch.before if each not in halting}
            rest = self._engine.commit_rest(rest, batch)
        batch.withdraw_dead_letters(rest)
        if rest:
            self._report_committed(batch, batch.tally_of(rest), rest, self._engine.seconds)

    def _confirm(self, batch: Batch, seconds: float) -> None:
        """Report a write that was committed."""
        self._limits.committed(seconds)
        self.repeating = bool(self._kept)
        self._committed_at_s = monotonic_s()
        self._resting_until_s = monotonic_s() + min(seconds, MAX_REST_S)
        for partition, checkpoint in batch.checkpoints.items():
            batch.touched[partition].committed = checkpoint
            batch.touched[partition].starting = False
        self._report_committed(batch, batch.tally, batch.checkpoints, seconds)
        if batch.halts:
            assigned, offset, failure = batch.halts[0]
            raise HaltedError(f"{failure.cause}; nothing is committed past {assigned.partition}@{offset}")

    def _report_committed(
        self, batch: Batch, tally: Tally, checkpoints: Mapping[Partition, Checkpoint], seconds: float
    ) -> None:
        """Report committed outcomes, and end what waited for them."""
        if self.write_failures:
            decided = [each for each in batch.decided_outside_items if each[0] in checkpoints]
            self._drop_write_failures(decided, checkpoints)
        self._stops.confirm(checkpoints)
        self._dependencies.report.add(tally.dropped)
        self._observer.committed(tally.report(seconds))

    def _keep(self, outcomes: Iterable[Outcomes]) -> None:
        """Write these outcomes before all others, except for those of partitions that have left this worker."""
        kept = [*outcomes, *self._kept]
        self._kept.clear()
        for each in kept:
            if each.assigned.closed:
                self._dependencies.audits.withdraw(each.dead_letters())
            else:
                self._kept.append(each)
        self.repeating = bool(self._kept)
        self.batch = Batch(self._dependencies, self._kept, self._limits)

    def drop_closed(self) -> None:
        """Drop the outcomes of partitions that have left this worker. Their next owner handles the records again."""
        if any(each.assigned.closed for each in (*self.batch.outcomes, *self._kept)):
            self._keep(self.batch.take_back(write_under_way=self._engine.writing is not None))

    def discard(self) -> None:
        """Discard all outcomes. Their records will be handled again."""
        self.batch.withdraw_dead_letters()
        for each in self._kept:
            self._dependencies.audits.withdraw(each.dead_letters())
        self._kept.clear()
        self.batch = Batch(self._dependencies, self._kept, self._limits)

    def start_anew(self, assigned: AssignedPartition) -> None:
        """Drop the audit and the write failures of a partition that is assigned or revoked.

        They would miss what other workers do.
        """
        topic, number = assigned.partition
        shared_by = self._dependencies.retry_topics.partitions[topic] if assigned.redelivered else None
        self._dependencies.audits.drop_partition(assigned.route.source, number, shared_by)
        for record in [record for record in self.write_failures if record[0] == assigned.partition]:
            del self.write_failures[record]

    def report(self, health: Health) -> None:
        """Log how many failures have no line of their own, and report whether writes are aborted for a long time."""
        self._dependencies.log.report_left_out()
        self._engine.report(health)

    def close(self) -> None:
        """Release the writer."""
        self._dependencies.log.report_left_out(ending=True)
        self._writer.close()

    def _drop_write_failures(
        self, decided: Iterable[tuple[Partition, int]], checkpoints: Mapping[Partition, Checkpoint]
    ) -> None:
        """Drop the failures that were decided, even if their record waits in place, and those of finished records."""
        for record in decided:
            self.write_failures.pop(record, None)
        for partition, offset in list(self.write_failures):
            if partition in checkpoints and offset < checkpoints[partition].offset:
                del self.write_failures[partition, offset]
