"""The scheduler's writes: which record goes where when it leaves its tier, and how early a write begins."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import ceil

from kafka_redelivery.consumers.routes import UNKNOWN_SOURCE, RetryTopics
from kafka_redelivery.consumers.scheduler.tier_partition import TierRecord
from kafka_redelivery.consumers.telemetry.failure_log import FailureLog
from kafka_redelivery.consumers.telemetry.observers import OutcomeLabel
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.journal import Journal
from kafka_redelivery.consumers.writes.redrive_outcomes import RedriveOutcomes
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import HeaderError, NoTierError
from kafka_redelivery.topology.policy.decision import (
    DeadLetter,
    Discard,
    Failure,
    FailureKind,
    Reason,
    decide,
    suppressed,
)
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import outcome_of
from kafka_redelivery.topology.topics.tiers import TierSet
from kafka_redelivery.topology.wire.headers import (
    FAILURE_CAUSE,
    HeaderList,
    Headers,
    dead_letter_headers,
    read_address,
    read_failure_cause,
    read_lineage,
    read_partial_lineage,
    ready_headers,
    with_due,
)
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.waiting import WaitingAction, WaitingRequest
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.errors import WriteRefusedError
from kafka_redelivery.transport.protocols import Partition, ProducerRecord

_log = logging.getLogger(__name__)

_INITIAL_LEAD_S = 0.01
_MAX_LEAD_S = 0.05
"""An open transaction blocks every read-committed reader of its partitions."""

_NEWEST_WEIGHT = 0.2
"""Weight of the newest write in the moving average."""


@dataclass(slots=True)
class Release:
    """One write of the scheduler."""

    produced: list[ProducerRecord] = field(default_factory=list)
    origins: list[tuple[Partition, int]] = field(default_factory=list)
    """For each produced record the partition and offset of its record in the tier."""

    due_ms: list[int] = field(default_factory=list)
    """Due time of each record that becomes ready."""

    moved: int = 0
    """Records that go to a shorter tier."""

    outcomes: Counter[OutcomeLabel] = field(default_factory=Counter)
    """Outcomes of the records that cannot be released."""

    dead_letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records that are dead-lettered because they cannot be released, by source topic and reason."""

    discarded: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records that are discarded because they cannot be released, by source topic and reason."""

    redriven: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those among them that were sent again from a dead-letter topic, by source topic and outcome."""

    audited: list[tuple[Lineage, str]] = field(default_factory=list)
    """Lineage and audit suffix of each dead letter that the audit has noted for this write."""

    journal: Journal | None = None
    """The outcomes of the records that cannot be released, if there is a journal."""

    journal_origins: dict[tuple[str, int], tuple[Partition, int]] = field(default_factory=dict)
    """For each journal record, by its source partition, the first waiting record that it is about."""

    checkpoints: Mapping[Partition, Checkpoint] = field(default_factory=dict)
    starting: Collection[Partition] = ()
    """The partitions without a committed offset."""

    before: Mapping[Partition, Checkpoint | None] = field(default_factory=dict)
    produces = True
    """These two are not needed: after an aborted write the scheduler reads its records again."""

    early: bool = False
    """Whether the write begins before its records leave."""

    def close(self) -> None:
        """Add the journal records. Called once, before the write begins."""
        if self.journal is not None:
            self.produced += self.journal.records()
            self.origins += self.journal_origins.values()

    def judged(self, error: WriteRefusedError) -> WriteRefusedError:
        """See :class:`~kafka_redelivery.consumers.writes.engine.Write`. All its topics are those of the group."""
        return error.judged([each.for_topic_of_group() for each in error.refused])


class TopicMissingError(Exception):
    """The topic of the group that a record goes to does not exist, or is not shown. The record's partition halts."""

    def __init__(self, origin: tuple[Partition, int], record: ProducerRecord) -> None:
        super().__init__(f"there is no topic {record.topic}")
        self.origin = origin
        self.record = record


class CommitLeadTime:
    """How long before its records leave a write begins: a moving average of what recent writes needed up to the commit.

    No reader sees a record before its transaction commits. So everything but the commit can be done before the time.
    """

    def __init__(self, initial_s: float = _INITIAL_LEAD_S) -> None:
        self._seconds = initial_s

    @property
    def ms(self) -> int:
        """The lead time, rounded up."""
        return ceil(self._seconds * 1000)

    def measure(self, prepared_s: float) -> None:
        """Add to the average what a confirmed write needed up to its commit."""
        self._seconds += _NEWEST_WEIGHT * (min(prepared_s, _MAX_LEAD_S) - self._seconds)


class ReleaseBuilder:
    """Produces the records of a write, for the topics that exist in the cluster."""

    def __init__(
        self,
        settings: Settings,
        tiers: TierSet,
        partitions: Mapping[str, int],
        audit: DeadLetterAudit | None = None,
        log: FailureLog | None = None,
        redrive_outcomes: RedriveOutcomes | None = None,
        look_up: Callable[[list[str]], Mapping[str, int]] = lambda _: {},
        reported: set[str] | None = None,
    ) -> None:
        """Prepare the topic names.

        Args:
            settings: the configuration.
            tiers: those to which records move.
            partitions: the partition counts of the group's topics that are known.
            audit: the dead letters written before.
            log: gets a line for each record that cannot be released.
            redrive_outcomes: makes the outcomes of records that were sent again; ``None`` = for these topics.
            look_up: asks the cluster for the partition counts of topics, because a ready topic may be new.
            reported: gets the sources that are not configured, once a warning is in the log.
        """
        self._audit = DeadLetterAudit() if audit is None else audit
        self._details = settings.failure_details
        self._log = FailureLog(self._details) if log is None else log
        naming = settings.naming()
        self._journal = naming.journal_topic() if settings.journal else None
        self._group = settings.group
        self._counts = dict(partitions)
        self._look_up = look_up
        self._retry_topics = RetryTopics(naming, tiers, self._counts)
        self._redrive_outcomes = redrive_outcomes or RedriveOutcomes(naming.actions_topic(), partitions)
        self._ready_topics = {source: topic for topic, source in naming.ready_topics_among(partitions).items()}
        """Source -> its ready topic; also for sources that are not configured."""

        self._released: dict[str, str] = {}
        """Source -> its ready topic, once a record has been released to it."""

        self._missing: set[str] = set()
        """The ready topics that were looked up and do not exist."""

        self._naming = naming
        self._reported = set() if reported is None else reported
        self._entries = settings.entries()
        self._dead_letter_topics = {
            topic: naming.dead_letter_topic(entry.dead_letter_strategy.topic, topic)
            for topic, entry in self._entries.items()
        }
        kept = [
            topic
            for topic, entry in self._entries.items()
            if entry.dead_letter_strategy.kind is not DeadLetterKind.DISCARDING
        ]
        self._fallback_source = next(iter(kept or self._entries))
        """The source whose policy applies to records of a source that is not configured."""

    def add(self, release: Release, partition: Partition, record: TierRecord, now_ms: int, refusal: str | None) -> None:
        """Add the produced record for one waiting record to a write.

        Args:
            release: the write.
            partition: the tier's partition.
            record: the waiting record.
            now_ms: epoch ms.
            refusal: the broker's reason for refusing the record in an earlier write, ``None`` if it did not.

        Raises:
            TopicMissingError: the ready topic of its source, or the dead-letter topic or journal that it needs, does
                not exist, or no tier does.
        """
        message = record.message
        headers = headers_of(message)
        if refusal is None and record.origin is not None and (record.final or record.due_ms <= now_ms):
            address, number = record.origin
            known = self._released.get(address)
            if known is not None:  # most records: the rest is for those that are new here, or damaged, or refused
                release.due_ms.append(record.due_ms)
                release.origins.append((partition, record.offset))
                place = self._retry_topics.partition_for(known, number)
                ready = ready_headers(headers, in_order=True)
                release.produced.append(ProducerRecord(known, place, message.key(), message.value(), ready))
                return
        try:
            address, number = record.origin or read_lineage(headers)[:2]
        except HeaderError as error:
            waiting = Lineage(partition.topic, partition.number, record.offset, record.message.timestamp()[1])
            lineage = read_partial_lineage(headers, waiting)
            failure = Failure(FailureKind.BAD_HEADERS, type(error).__name__, str(error))
            address = read_address(headers) or lineage.address
            self._dead_letter(release, partition, record, lineage, address, failure, now_ms)
            return
        ready_topic = self._ready_topics.get(address) or self._look_up_ready_topic(address)
        if refusal is not None:
            problem = refusal
        elif ready_topic is None:
            topic = self._naming.ready_topic(address)
            if address in self._entries:
                raise TopicMissingError((partition, record.offset), _for_missing(topic, record, headers))
            problem = f"there is no topic {topic}, and {address} is not among the sources of group {self._group}"
        elif not record.final and record.due_ms > now_ms:
            self._move(release, partition, record, number, list(headers), record.due_ms - now_ms)
            return
        else:
            release.due_ms.append(record.due_ms)
            if address not in self._entries:
                self._report_unconfigured(address, ready_topic)
            if record.origin is not None:
                self._released[address] = ready_topic
            self._produce(release, partition, record, ready_topic, number, ready_headers(headers))
            return
        failure = Failure(FailureKind.UNDELIVERABLE, "Undeliverable", problem)
        self._dead_letter(release, partition, record, read_lineage(headers), address, failure, now_ms)

    def act(
        self, release: Release, partition: Partition, record: TierRecord, request: WaitingRequest, now_ms: int
    ) -> str | None:
        """Add the produced record that an operator wants for a waiting record to a write.

        Returns:
            why nothing is added and the record has to wait as before; ``None`` if it is added.
        """
        headers = headers_of(record.message)
        try:
            lineage = read_lineage(headers)
        except HeaderError:
            return "their headers are damaged"
        if request.action is WaitingAction.DEAD_LETTER:
            return self._dead_letter_by_hand(release, partition, record, lineage, request, now_ms)
        due_ms = now_ms if request.due_ms is None else request.due_ms
        if due_ms > now_ms:
            left_ms = due_ms - now_ms
            try:
                self._move(release, partition, record, lineage.partition, with_due(headers, due_ms, left_ms), left_ms)
            except TopicMissingError as error:
                return str(error)
            return None
        ready_topic = self._ready_topics.get(lineage.address) or self._look_up_ready_topic(lineage.address)
        if ready_topic is None:
            return f"there is no topic {self._naming.ready_topic(lineage.address)}"
        release.due_ms.append(due_ms)
        ready = ready_headers(with_due(headers, due_ms, 0))
        self._produce(release, partition, record, ready_topic, lineage.partition, ready)
        return None

    def _move(
        self,
        release: Release,
        partition: Partition,
        record: TierRecord,
        place: int,
        headers: HeaderList,
        remaining_ms: int,
    ) -> None:
        """Add the produced record for the tier in which a record waits next; ``place``: partition of its source.

        Raises:
            TopicMissingError: no tier exists any more, not even its own.
        """
        try:
            topic = self._retry_topics.topic_for(remaining_ms)
        except NoTierError as error:
            missing = _for_missing(partition.topic, record, headers)
            raise TopicMissingError((partition, record.offset), missing) from error
        if self._naming.mixed_topic() not in {partition.topic, topic}:
            place = partition.number  # so that a write has as few partitions as the worker's
        release.moved += 1
        self._produce(release, partition, record, topic, place, headers)

    def _dead_letter_by_hand(
        self,
        release: Release,
        partition: Partition,
        record: TierRecord,
        lineage: Lineage,
        request: WaitingRequest,
        now_ms: int,
    ) -> str | None:
        entry = self._entries.get(lineage.address)
        if entry is None:
            return f"{lineage.address} is not among the sources of group {self._group}"
        last = read_failure_cause(dict(headers_of(record.message)).get(FAILURE_CAUSE))
        said = ": ".join(filter(None, (request.by, request.note)))
        message = "; before that: ".join(filter(None, (said, last.message)))
        failure = Failure(FailureKind.OPERATOR, last.exception or "Operator", message)
        if isinstance(decide(failure, lineage, entry, now_ms), Discard):
            return f"the dead-letter strategy of {lineage.address} discards them"
        for topic in filter(None, (self._dead_letter_topics[lineage.address], self._journal)):
            if topic not in self._counts:
                return f"there is no topic {topic}"
        self._dead_letter(release, partition, record, lineage, lineage.address, failure, now_ms)
        return None

    def _look_up_ready_topic(self, source: str) -> str | None:
        """Return a ready topic that is not known; ``None`` if it does not exist. It is looked up once."""
        topic = self._naming.ready_topic(source)
        if topic not in self._missing:
            count = self._look_up([topic]).get(topic)
            if count is not None:
                self._counts[topic], self._ready_topics[source] = count, topic
                return topic
            self._missing.add(topic)
        return None

    def _produce(
        self,
        release: Release,
        partition: Partition,
        record: TierRecord,
        topic: str,
        place: int,
        headers: HeaderList,
    ) -> None:
        number = self._retry_topics.partition_for(topic, place)
        message = record.message
        release.origins.append((partition, record.offset))
        release.produced.append(ProducerRecord(topic, number, message.key(), message.value(), headers))

    def _report_unconfigured(self, source: str, ready_topic: str) -> None:
        if source not in self._reported:
            self._reported.add(source)
            _log.warning(
                "%s is not among the sources of group %s: its retries are released to %s, where no worker reads them",
                source,
                self._group,
                ready_topic,
            )

    def _dead_letter(
        self,
        release: Release,
        partition: Partition,
        record: TierRecord,
        lineage: Lineage,
        address: str,
        failure: Failure,
        now_ms: int,
    ) -> None:
        """Dead-letter a record that cannot be released and would block its tier, or that an operator takes out.

        The policy and the dead-letter topic are those of the source ``address``.
        """
        location = f"{partition}@{record.offset}"
        is_known = address in self._entries
        source = address if is_known else self._fallback_source
        failure = self._details.of(failure)
        label = address if is_known else UNKNOWN_SOURCE
        decision = decide(failure, lineage, self._entries[source], now_ms)
        if isinstance(decision, DeadLetter) and decision.reason not in {Reason.BAD_HEADERS, Reason.OPERATOR}:
            suffix = f"/{record.due_ms}"  # a redelivery with another due time is no duplicate
            if self._audit.is_duplicate(lineage, suffix):
                decision = suppressed(decision)
            else:
                release.audited.append((lineage, suffix))
        match decision:
            case DeadLetter():
                topic = self._dead_letter_topics[source]
                headers = dead_letter_headers(lineage, self._group, headers_of(record.message), decision, now_ms)
                if topic not in self._counts:
                    raise TopicMissingError((partition, record.offset), _for_missing(topic, record, headers))
                self._produce(release, partition, record, topic, lineage.partition, headers)
                outcome = "dead_lettered"
                release.dead_letters[label, str(decision.reason)] += 1
            case Discard():
                outcome = "discarded"
                release.discarded[label, str(decision.reason)] += 1
            case _:
                raise AssertionError(f"a record that cannot be released is never retried: {decision}")
        release.outcomes[OutcomeLabel(label, outcome, decision.ack_type)] += 1
        if self._journal is not None:
            self._note(release, self._journal, partition, record, lineage, outcome)
        if lineage.redrive:
            release.redriven[label, str(outcome_of(decision))] += 1
        ended = self._redrive_outcomes.record(lineage, decision, now_ms) if lineage.redrive else None
        if ended is not None:
            release.origins.append((partition, record.offset))
            release.produced.append(ended)
        self._log.log(lineage, failure, decision, record.message.key(), location)

    def _note(
        self, release: Release, topic: str, partition: Partition, record: TierRecord, lineage: Lineage, outcome: str
    ) -> None:
        """Note in the journal what became of a record."""
        if topic not in self._counts:
            raise TopicMissingError((partition, record.offset), ProducerRecord(topic, 0, None, b""))
        if release.journal is None:
            release.journal = Journal(self._group, topic, self._retry_topics)
        release.journal.note(lineage.address, lineage.partition, outcome, (lineage.offset,))
        release.journal_origins.setdefault((lineage.address, lineage.partition), (partition, record.offset))


def _for_missing(topic: str, record: TierRecord, headers: Headers) -> ProducerRecord:
    return ProducerRecord(topic, 0, record.message.key(), record.message.value(), list(headers))
