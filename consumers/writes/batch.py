"""One write: the outcomes of work items, decided into produced records and committed offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, initial_lineage
from kafka_redelivery.consumers.flow.lane import size_of
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.telemetry.failure_log import DiscardReport, FailureLog
from kafka_redelivery.consumers.telemetry.observers import Committed, OutcomeLabel
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.journal import Journal
from kafka_redelivery.topology.policy.decision import (
    NOT_DELIVERED,
    Ack,
    AckType,
    DeadLetter,
    Decision,
    Discard,
    Failure,
    FailureKind,
    Halt,
    Reason,
    Retry,
    decide,
    suppressed,
)
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import HeaderList, Headers, dead_letter_headers, read_due, retry_headers
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord


class ProducedFor(NamedTuple):
    """The consumed record that a record was produced for. It is needed if the broker refuses the produced record."""

    assigned: AssignedPartition
    offset: int
    role: str
    """What was produced: an ``output``, a ``retry`` or a ``dead letter``."""


@dataclass(frozen=True, slots=True)
class BatchDependencies:
    """Configuration and collaborators that all batches of a worker share."""

    group: str
    retry_topics: RetryTopics
    clock: Callable[[], int]
    jitter: Callable[[], Iterator[float]]
    write_failures: dict[tuple[Partition, int], Failure]
    """Failures by partition and offset of consumed records, after the broker refused a record produced for them.

    After the rewind these consumed records are not handled again. Each is decided with its failure when it is fetched.
    """

    journal: str | None = None
    """Topic of the journal; ``None`` = the journal is off."""

    blocking: bool = False
    """Whether a failed record waits in place, so that later records wait for it."""

    success_ack: AckType = AckType.STANDARD
    """Acknowledgement type of a success."""

    audits: DeadLetterAudit = field(default_factory=DeadLetterAudit)
    report: DiscardReport = field(default_factory=DiscardReport)
    log: FailureLog = field(default_factory=FailureLog)


class Batch:
    """Collects one write. Owned by the polling thread; discarded if the write is aborted."""

    def __init__(self, dependencies: BatchDependencies) -> None:
        self._dependencies = dependencies
        self.produced: list[ProducerRecord] = []
        self._sources: list[tuple[AssignedPartition, Sequence[int], str] | None] = []
        """The consumed records of the produced ones, in runs; see :attr:`produced_for`."""

        self.halts: list[tuple[AssignedPartition, int, Failure]] = []
        """Partition, offset and failure of each record that halts the worker."""

        self.size = 0
        """Number of records whose outcome the batch holds."""

        self.bytes = 0
        """Size of these records and their outputs. Retry records and dead letters are not counted again."""

        self.urgent = False
        """Whether the batch holds a failure or an output. Lazy acknowledgement may not delay these."""

        self.decided_outside_items: list[tuple[Partition, int]] = []
        """Partition and offset of each record decided outside a work item.

        When the write is committed, the committer drops the write failures of these records.
        """

        self.in_place: list[tuple[AssignedPartition, Message]] = []
        """Unfinished records that wait in place. The caller empties the list and queues them again."""

        self.dropped: Counter[int] = Counter()
        """Number of records that the discarding strategy dropped, by report interval."""

        self._audited_lineages: list[Lineage] = []
        """Dead letters that this batch has added to the audit."""

        self._touched: dict[Partition, AssignedPartition] = {}
        self._outcomes: Counter[OutcomeLabel] = Counter()
        self._redeliveries: Counter[tuple[str, int]] = Counter()
        self._dead_letters: Counter[tuple[str, str]] = Counter()
        self._discarded: Counter[tuple[str, str]] = Counter()
        self._recoveries: Counter[tuple[str, int]] = Counter()
        self._lateness: list[int] = []
        self._seconds: list[float] = []
        self._journal: Journal | None = None
        if dependencies.journal is not None:
            self._journal = Journal(dependencies.group, dependencies.journal, dependencies.retry_topics)

    @property
    def produced_for(self) -> list[ProducedFor | None]:
        """The consumed record of each produced one; ``None`` = a journal record. Built only when it is needed."""
        found: list[ProducedFor | None] = []
        for run in self._sources:
            if run is None:
                found.append(None)
            else:
                assigned, offsets, role = run
                found += [ProducedFor(assigned, offset, role) for offset in offsets]
        return found

    def add(self, item: WorkItem) -> None:
        """Add the outcomes of a work item."""
        assigned = item.lane.assigned
        unsuccessful = self._decide_failures(item)
        self.urgent = self.urgent or bool(item.failures or item.outputs)
        unacknowledged = {index: each for index, each in item.unacknowledged if index not in unsuccessful}
        for index, records in item.outputs if unacknowledged else ():
            if index in unacknowledged:
                unacknowledged[index].outputs = records
        outputs, offsets_of_outputs = item.emitted(unacknowledged)
        self.produced += outputs
        self._sources.append((assigned, offsets_of_outputs, "output"))
        self.bytes += sum(len(output.value or b"") for output in outputs)
        unfinished = {i for i, decision in unsuccessful.items() if self._stays(decision)} | unacknowledged.keys()
        offsets = item.offsets()
        finished = [offset for i, offset in enumerate(offsets) if i not in unfinished] if unfinished else offsets
        if len(unacknowledged) < item.position:
            assigned.progress.complete(finished)
            self._touch(assigned)
        self.size += item.position - len(unacknowledged)
        self.bytes += item.bytes - size_of([each.message for each in unacknowledged.values()])
        self._seconds += item.seconds
        not_successful = unsuccessful.keys() | unacknowledged.keys()
        successes = item.position - len(not_successful)
        if successes:
            label = OutcomeLabel(assigned.route.source, _success(item), self._dependencies.success_ack)
            self._outcomes[label] += successes
        if item.redelivered:
            self._count_redeliveries(item, not_successful)
        elif self._journal is not None:
            acked = [offset for index, offset in enumerate(offsets) if index not in not_successful]
            if acked:
                self._journal.note(assigned.partition.topic, assigned.partition.number, "acked", acked)

    def acknowledge(
        self, assigned: AssignedPartition, message: Message, lineage: Lineage, outputs: list[ProducerRecord]
    ) -> None:
        """Add a success that was acknowledged after its handler had returned.

        Only the modes client and individual do this. They have no journal.
        """
        self.produced += outputs
        self._sources.append((assigned, [message.offset()] * len(outputs), "output"))
        self.bytes += sum(len(output.value or b"") for output in outputs) + size_of((message,))
        assigned.progress.complete((message.offset(),))
        self._touch(assigned)
        self.size += 1
        outcome = "recovered" if lineage.deliveries > 0 else "acked"
        self._outcomes[OutcomeLabel(assigned.route.source, outcome, self._dependencies.success_ack)] += 1
        if lineage.deliveries > 0:
            self._recoveries[assigned.route.source, lineage.deliveries + 1] += 1

    def add_failure(self, assigned: AssignedPartition, message: Message, lineage: Lineage, failure: Failure) -> None:
        """Decide about a failed record that is in no work item."""
        self.urgent = True
        decision = self._decide(assigned, message, headers_of(message), lineage, failure, self._dependencies.clock())
        if not self._stays(decision, failure):
            assigned.progress.complete((message.offset(),))
        self.decided_outside_items.append((assigned.partition, message.offset()))
        self._touch(assigned)
        self.size += 1
        self.bytes += size_of((message,))

    def _stays(self, decision: Decision, failure: Failure | None = None) -> bool:
        """Whether the record is not finished.

        So it is after a halt, and while the record waits in place: because failures block the records behind them, or
        because a worker died during its delivery.
        """
        if isinstance(decision, Retry):
            return self._dependencies.blocking or (failure is not None and failure.kind is FailureKind.CLOSED)
        return isinstance(decision, Halt)

    def commit_position(self, assigned: AssignedPartition) -> None:
        """Commit the position of a partition even if the batch holds no outcome of it."""
        self._touch(assigned)

    def checkpoints(self) -> dict[Partition, Checkpoint]:
        """Return the offsets to commit. Called once, when the write begins."""
        points = {}
        for partition, assigned in self._touched.items():
            if not assigned.closed:
                points[partition] = assigned.progress.checkpoint()
                assigned.dirty = False  # if the write is aborted, the partition is opened again
        return points

    def add_journal_records(self) -> None:
        """Add the journal records, after the last outcome."""
        if self._journal is not None:
            records = self._journal.records()
            self.produced += records
            self._sources += [None] * len(records)

    def report(self, seconds: float) -> Committed:
        """Return the report of the committed batch for the observer.

        Args:
            seconds: duration of the write.
        """
        return Committed(
            seconds,
            self._outcomes,
            self._redeliveries,
            self._dead_letters,
            self._lateness,
            self._seconds,
            self._recoveries,
            self._discarded,
        )

    def forget_dead_letters(self) -> None:
        """Remove the batch's dead letters from the audit, because they will never be written."""
        self._dependencies.audits.forget(self._audited_lineages)
        self._audited_lineages = []

    def raise_if_halted(self) -> None:
        """Raise the first decision that halts the worker.

        Raises:
            HaltedError: there is one.
        """
        if self.halts:
            assigned, offset, failure = self.halts[0]
            topic, number = assigned.partition
            raise HaltedError(
                f"{failure.exception}: {failure.message}; nothing is committed past {topic}-{number}@{offset}"
            )

    def _touch(self, assigned: AssignedPartition) -> None:
        assigned.dirty = True
        self._touched[assigned.partition] = assigned

    def _decide_failures(self, item: WorkItem) -> dict[int, Decision]:
        decisions: dict[int, Decision] = {}
        if not item.failures:
            return decisions
        assigned = item.lane.assigned
        now_ms = self._dependencies.clock()  # read after the last failure, so that no record is redelivered too early
        for index, failure in item.failures:
            message = item.messages[index]
            headers = headers_of(message)
            lineage = item.lineages[index] if item.redelivered else initial_lineage(message, headers, assigned.route)
            decisions[index] = self._decide(assigned, message, headers, lineage, failure, now_ms)
        return decisions

    def _decide(
        self,
        assigned: AssignedPartition,
        message: Message,
        headers: Headers,
        lineage: Lineage,
        failure: Failure,
        now_ms: int,
    ) -> Decision:
        dependencies, entry = self._dependencies, assigned.route.entry
        if failure.kind not in NOT_DELIVERED:
            lineage = lineage.delivered(lineage.deliveries + 1)
        decision = decide(
            failure, lineage, entry, now_ms, dependencies.jitter() if entry.redelivery_policy.randomised else ()
        )
        if assigned.redelivered and read_due(headers) is None:
            # No due time: an operator sent it back, so it may be dead-lettered again.
            dependencies.audits.forget((lineage,))
        if isinstance(decision, DeadLetter) and decision.reason is not Reason.BAD_HEADERS:
            decision = self._suppress_duplicate(decision, lineage)
        dependencies.log.log(lineage, failure, decision, message.key())
        if isinstance(decision, Retry) and self._stays(decision, failure):
            self._wait_in_place(assigned, message, lineage, decision)
        else:
            self._dispatch(assigned, message, headers, lineage, decision, now_ms)
        return decision

    def _suppress_duplicate(self, decision: DeadLetter, lineage: Lineage) -> DeadLetter | Discard:
        if self._dependencies.audits.is_duplicate(lineage):
            return suppressed(decision)
        self._audited_lineages.append(lineage)
        return decision

    def _wait_in_place(self, assigned: AssignedPartition, message: Message, lineage: Lineage, decision: Retry) -> None:
        source = assigned.route.source
        assigned.progress.wait_in_place(message.offset(), lineage.deliveries, decision.due_ms)
        self.in_place.append((assigned, message))
        self._redeliveries[source, lineage.deliveries] += 1
        self._outcomes[OutcomeLabel(source, "retried", decision.ack_type)] += 1
        if self._journal is not None:
            self._journal.note(lineage.address, lineage.partition, "retried", (lineage.offset,))

    def _dispatch(
        self,
        assigned: AssignedPartition,
        message: Message,
        headers: Headers,
        lineage: Lineage,
        decision: Decision,
        now_ms: int,
    ) -> None:
        dependencies, route = self._dependencies, assigned.route
        match decision:
            case Retry():
                outcome = "retried"
                delay_ms = decision.delay_ms
                topic = dependencies.retry_topics.topic_for(delay_ms) if delay_ms > 0 else route.ready
                self._redeliveries[route.source, lineage.deliveries] += 1
                record_headers = retry_headers(lineage, dependencies.group, headers, decision)
                self._produce(assigned, message, "retry", topic, lineage, record_headers)
            case DeadLetter():
                outcome = "dead_lettered"
                self._dead_letters[route.source, str(decision.reason)] += 1
                topic = route.dead_letter_of(decision)
                record_headers = dead_letter_headers(lineage, dependencies.group, headers, decision, now_ms)
                self._produce(assigned, message, "dead letter", topic, lineage, record_headers)
            case Ack():  # not reached: `failure` is never None here, and only None is acknowledged
                outcome = "acked"
            case Discard(reason=reason):
                outcome = "discarded"
                self._discarded[route.source, str(reason)] += 1
                interval = route.entry.dead_letter_strategy.report_interval(expired=reason is Reason.EXPIRED)
                if interval > 0 and reason is not Reason.DUPLICATE:
                    self.dropped[interval] += 1
            case Halt(failure=failure):
                self.halts.append((assigned, message.offset(), failure))
                return
            case _:
                assert_never(decision)
        self._outcomes[OutcomeLabel(route.source, outcome, decision.ack_type)] += 1
        if self._journal is not None:
            self._journal.note(lineage.address, lineage.partition, outcome, (lineage.offset,))

    def _produce(
        self,
        assigned: AssignedPartition,
        message: Message,
        role: str,
        topic: str,
        lineage: Lineage,
        headers: HeaderList,
    ) -> None:
        """Produce the record with new headers. Its partition follows from the partition of its origin."""
        partition = self._dependencies.retry_topics.partition_for(topic, lineage.partition)
        self.produced.append(ProducerRecord(topic, partition, message.key(), message.value(), headers))
        self._sources.append((assigned, (message.offset(),), role))

    def _count_redeliveries(self, item: WorkItem, unsuccessful: Container[int]) -> None:
        """Count the lateness of redeliveries and, by attempt, the recovered records."""
        self._lateness += [late_ms for _, late_ms in item.lateness]
        source = item.lane.assigned.route.source
        succeeded = [each for index, each in enumerate(item.lineages[: item.position]) if index not in unsuccessful]
        for lineage in succeeded if _success(item) == "recovered" else ():
            self._recoveries[source, lineage.deliveries + 1] += 1
        journal = self._journal
        if journal is None:
            return
        for index, late_ms in item.lateness:
            lineage = item.lineages[index]
            journal.note_lateness(lineage.address, lineage.partition, late_ms)
        for lineage in succeeded:
            journal.note(lineage.address, lineage.partition, _success(item), (lineage.offset,))


def _success(item: WorkItem) -> str:
    redelivered = item.lane.assigned.redelivered or (item.in_place is not None and item.in_place.deliveries > 0)
    return "recovered" if redelivered else "acked"
