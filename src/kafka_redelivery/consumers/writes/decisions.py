"""From results of handlers to decided outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, initial_lineage
from kafka_redelivery.consumers.flow.lane import Lane, size_of
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.telemetry.failure_log import DiscardReport, FailureLog
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.outcomes import Decided, Outcomes
from kafka_redelivery.consumers.writes.redrive_outcomes import RedriveOutcomes
from kafka_redelivery.consumers.writes.tier_placement import TierPlacement
from kafka_redelivery.topology.policy.decision import (
    NOT_DELIVERED,
    AckType,
    DeadLetter,
    Decision,
    Failure,
    FailureKind,
    Halt,
    Reason,
    Retry,
    decide,
    suppressed,
)
from kafka_redelivery.topology.policy.failure_details import FailureDetails
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import Headers, read_due
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord


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

    placement: TierPlacement = field(default_factory=TierPlacement)
    audits: DeadLetterAudit = field(default_factory=DeadLetterAudit)
    report: DiscardReport = field(default_factory=DiscardReport)
    details: FailureDetails = FailureDetails.FULL
    look_up_topics: Callable[[list[str]], Mapping[str, int]] = lambda _: {}
    """Asks the cluster for the partition counts of topics, because one that is needed may be new."""

    log: FailureLog = field(init=False)
    redrive_outcomes: RedriveOutcomes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "log", FailureLog(self.details))
        topics = self.retry_topics
        outcomes = RedriveOutcomes(topics.naming.actions_topic(), topics.partitions, self.look_up_topics)
        object.__setattr__(self, "redrive_outcomes", outcomes)


class Decisions:
    """Decides about failed records, each once. Owned by the polling thread."""

    def __init__(self, dependencies: BatchDependencies) -> None:
        self._dependencies = dependencies
        self.in_place: list[tuple[AssignedPartition, Message]] = []
        """Unfinished records that wait in place. The caller empties the list and queues them again."""

    def of_item(self, item: WorkItem) -> Outcomes:
        """Return the outcomes of a work item."""
        outcomes = Outcomes(item)
        if item.failures:
            assigned = item.lane.assigned
            now_ms = self._dependencies.clock()  # after the last failure, so that no record is redelivered too early
            # All records of an item may fail. Without randomness those with as many deliveries get the same retry.
            retries: dict[int, Retry] | None = None if assigned.route.entry.redelivery_policy.randomised else {}
            for index, failure in item.failures:
                message = item.messages[index]
                headers = headers_of(message)
                known = item.redelivered
                lineage = item.lineages[index] if known else initial_lineage(message, headers, assigned.route)
                outcomes.decided[index] = self._decide(assigned, message, headers, lineage, failure, now_ms, retries)
        if item.unacknowledged:
            outcomes.unacknowledged = {
                index: each for index, each in item.unacknowledged if index not in outcomes.decided
            }
            for index, records in item.outputs:
                if index in outcomes.unacknowledged:
                    outcomes.unacknowledged[index].outputs = records
        return outcomes

    def of_failure(self, assigned: AssignedPartition, message: Message, lineage: Lineage, failure: Failure) -> Outcomes:
        """Return the outcome of a failed record that is in no work item."""
        decided = self._decide(assigned, message, headers_of(message), lineage, failure, self._dependencies.clock())
        return Outcomes(_item_of_one(assigned, message, lineage, []), {0: decided}, refetched=True)

    def of_acknowledgement(
        self, assigned: AssignedPartition, message: Message, lineage: Lineage, outputs: list[ProducerRecord]
    ) -> Outcomes:
        """Return a success that was acknowledged after its handler had returned."""
        return Outcomes(_item_of_one(assigned, message, lineage, outputs))

    def _decide(
        self,
        assigned: AssignedPartition,
        message: Message,
        headers: Headers,
        lineage: Lineage,
        failure: Failure,
        now_ms: int,
        retries: dict[int, Retry] | None = None,
    ) -> Decided:
        """Decide about a record; ``retries``: those that a failure of the handler got at ``now_ms``, by deliveries."""
        dependencies, entry = self._dependencies, assigned.route.entry
        failure = dependencies.details.of(failure)
        if failure.kind not in NOT_DELIVERED:
            lineage = lineage.delivered(lineage.deliveries + 1)
        shared = retries if failure.kind is FailureKind.RAISED else None  # Redeliver may ask for a delay of its own
        decision: Decision | None = None if shared is None else shared.get(lineage.deliveries)
        if decision is None:
            jitter = dependencies.jitter() if entry.redelivery_policy.randomised else ()
            decision = decide(failure, lineage, entry, now_ms, jitter)
            if shared is not None and isinstance(decision, Retry):
                shared[lineage.deliveries] = decision
        if assigned.redelivered and read_due(headers) is None:
            # No due time: an operator sent it back, so it may be dead-lettered again.
            dependencies.audits.forget((lineage,))
        audited = False
        if isinstance(decision, DeadLetter) and decision.reason is not Reason.BAD_HEADERS:
            audited = not dependencies.audits.is_duplicate(lineage)
            if not audited:
                decision = suppressed(decision)
        dependencies.log.log(lineage, failure, decision, message.key())
        if isinstance(decision, Retry) and failure.after_ms is not None and entry.maximum_handler_delay is None:
            dependencies.log.ignored_delay(lineage)
        stays = self._stays(decision, failure)
        if stays and isinstance(decision, Retry):
            assigned.progress.wait_in_place(message.offset(), lineage.deliveries, decision.due_ms)
            self.in_place.append((assigned, message))
        return Decided(message, headers, lineage, decision, now_ms, stays, audited, failure)

    def _stays(self, decision: Decision, failure: Failure) -> bool:
        """Whether the record is not finished.

        So it is after a halt, and while the record waits in place: because failures block the records behind them, or
        because a worker died during its delivery.
        """
        if isinstance(decision, Retry):
            return self._dependencies.blocking or failure.kind is FailureKind.CLOSED
        return isinstance(decision, Halt)


def _item_of_one(
    assigned: AssignedPartition, message: Message, lineage: Lineage, outputs: list[ProducerRecord]
) -> WorkItem:
    waited = lineage.deliveries > 0 and not assigned.redelivered
    return WorkItem(
        Lane(assigned, exclusive=False),
        [message],
        1,
        outputs=[(0, outputs)] if outputs else [],
        lineages=[lineage],
        bytes=size_of((message,)),
        in_place=WaitingRecord(lineage.deliveries, 0) if waited else None,
    )
