"""From results of handlers to decided outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, initial_lineage
from kafka_redelivery.consumers.routes import RetryTopics, TierPlacement
from kafka_redelivery.consumers.telemetry.failure_log import DiscardReport, FailureLog
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.outcomes import Decided, Outcomes
from kafka_redelivery.consumers.writes.redrive_outcomes import RedriveOutcomes
from kafka_redelivery.topology.policy.decision import (
    NOT_DELIVERED,
    AckType,
    DeadLetter,
    Failure,
    FailureDetails,
    FailureKind,
    Halt,
    Reason,
    Retry,
    decide,
    suppressed,
)
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import Headers, read_due
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, Partition


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

    success_ack: AckType = AckType.STANDARD
    """Acknowledgement type of a success."""

    placement: TierPlacement = field(default_factory=TierPlacement)
    audits: DeadLetterAudit = field(default_factory=DeadLetterAudit)
    report: DiscardReport = field(default_factory=DiscardReport)
    details: FailureDetails = FailureDetails.FULL
    look_up_topics: Callable[[list[str]], Mapping[str, int]] = lambda _: {}
    """Asks the cluster for the partition counts of topics, because one that is needed may be new."""

    is_listed: Callable[[str], bool] = frozenset[str]().__contains__
    """Whether ``outputs`` lists a topic; called with those that do not exist."""

    log: FailureLog = field(init=False)
    redrive_outcomes: RedriveOutcomes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "log", FailureLog(self.details))
        topics = self.retry_topics
        outcomes = RedriveOutcomes(topics.naming.actions_topic(), topics.partitions, self.look_up_topics)
        object.__setattr__(self, "redrive_outcomes", outcomes)


_OUTSIDE = frozenset({FailureKind.CLOSED, FailureKind.UNAVAILABLE})
"""Failures whose cause is not the record: it keeps its place."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decides about failed records, each once. Owned by the polling thread."""

    dependencies: BatchDependencies
    in_place: list[tuple[AssignedPartition, Message]] = field(default_factory=list)
    """Unfinished records that wait in place. The caller empties the list and queues them again."""

    def decide(self, outcomes: Outcomes, failures: Iterable[tuple[int, Failure]]) -> None:
        """Decide about the records that failed; ``failures``: each with the index of its record."""
        dependencies, assigned = self.dependencies, outcomes.assigned
        lineages, messages, route = outcomes.lineages, outcomes.messages, outcomes.assigned.route
        now_ms = dependencies.clock()  # after the last failure, so that no record is redelivered too early
        details, randomised = dependencies.details, route.entry.redelivery_policy.randomised
        retries: dict[int, Retry] = {}
        """By deliveries: all records of an item may fail, and without randomness nothing else makes a difference."""

        due = {index for index, _ in outcomes.lateness}
        for index, raw in failures:
            failure = raw if details is FailureDetails.FULL else details.of(raw)
            message = messages[index]
            headers = headers_of(message)
            raised = failure.kind is FailureKind.RAISED
            delivered = int(raised or failure.kind not in NOT_DELIVERED)
            if lineages:
                lineage = lineages[index]
                lineage = lineage.delivered(lineage.deliveries + delivered)
            else:
                lineage = initial_lineage(message, headers, route, delivered)
            if assigned.redelivered and index not in due and read_due(headers) is None:
                # No due time: an operator sent it back, so it may be dead-lettered again.
                dependencies.audits.withdraw((lineage,))
            decision = retries.get(lineage.deliveries) if raised else None
            if decision is None:
                decided = self._decide(assigned, message, headers, lineage, failure, now_ms)
                if raised and isinstance(decided.decision, Retry) and not (randomised or decided.stays):
                    retries[lineage.deliveries] = decided.decision
            else:
                decided = Decided(message, headers, lineage, decision, now_ms, failure)
            dependencies.log.log(lineage, failure, decided.decision, message.key())
            outcomes.decided[index] = decided

    def _decide(
        self,
        assigned: AssignedPartition,
        message: Message,
        headers: Headers,
        lineage: Lineage,
        failure: Failure,
        now_ms: int,
    ) -> Decided:
        """Decide about a record.

        Args:
            assigned: its partition.
            message: the record.
            headers: its headers.
            lineage: with the delivery that failed, if that counts.
            failure: why it failed.
            now_ms: epoch ms.
        """
        dependencies, entry = self.dependencies, assigned.route.entry
        jitter = dependencies.jitter() if entry.redelivery_policy.randomised else ()
        decision = decide(failure, lineage, entry, now_ms, jitter)
        audited = False
        if isinstance(decision, DeadLetter) and decision.reason is not Reason.BAD_HEADERS:
            audited = not dependencies.audits.is_duplicate(lineage)
            if not audited:
                decision = suppressed(decision)
        stays = isinstance(decision, Halt)
        if isinstance(decision, Retry):
            outside = failure.kind in _OUTSIDE
            if failure.after_ms is not None and entry.maximum_handler_delay is None and not outside:
                dependencies.log.ignored_delay(lineage)
            # Failures block the records behind them; or a worker died, or what the handler needs is away for this key.
            stays = assigned.route.blocking or outside
            if stays:
                assigned.progress.wait_in_place(message.offset(), lineage.deliveries, decision.due_ms)
                self.in_place.append((assigned, message))
        return Decided(message, headers, lineage, decision, now_ms, failure, stays, audited)
