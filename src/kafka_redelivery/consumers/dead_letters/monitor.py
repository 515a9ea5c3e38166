"""Monitors the dead-letter topics and partitions without an owner, for metrics only.

The monitor runs on its own thread in a scheduler process, because this work is too slow for the scheduler's loop.
The schedulers of a group divide the dead-letter partitions by :meth:`Scheduler.share`, so one of them counts each dead
letter. A consumer without a group reads each record once; the monitor looks at its headers, never at its value. It
counts in bounded memory.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_redelivery.consumers.clock import Clock, monotonic_s, thread_cpu_s
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.routes import UNKNOWN_SOURCE
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import (
    DeadLetterCount,
    DeadLetterCounts,
    DeadLetterLabel,
    DeadLetterObserver,
    DeadLetterTopic,
    HaltCause,
    HaltLabel,
)
from kafka_redelivery.topology.cluster.facts import RETENTION_MS, Bounds, TopicFacts
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.wire.headers import (
    CAUSE_LIMIT,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_QUEUE,
    read_expiration,
)
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.assigned_reader import AssignedReader
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.errors import ReaderError, TopicForbiddenError
from kafka_redelivery.transport.protocols import Message, Partition

MAX_SEGMENTS = 128
"""Segments of one summary. All figures are exact up to this number of dead letters, beyond it to within one segment."""

NEVER = 2**63
"""Expiration of a dead letter that never expires."""

UNKNOWN_REASON: Final = UNKNOWN_SOURCE
_REASONS: Final = frozenset(str(reason) for reason in Reason)
_CAUSE_PREFIXES: Final = {b'{"reason":"%b"' % reason.encode(): reason for reason in _REASONS}
"""Start of the failure cause that this project writes. Parsing the rest would be half of the work of counting."""

_MAX_CAUSE_BYTES: Final = 6 * CAUSE_LIMIT
"""Size above which a failure cause of another program is not parsed.

A cause of this project that another program encodes again has at most six times as many bytes: ``\\u0000`` for each.
"""

_MAX_SEGMENTS_IN_ALL: Final = 2**18
"""Segments of all summaries together: about 60 MB."""

_MIN_SEGMENTS: Final = 8
"""Segments that every summary may have."""


@dataclass(slots=True)
class _Segment:
    first_offset: int
    last_offset: int
    number: int
    oldest_ms: int
    first_expiry_ms: int
    last_expiry_ms: int
    lifetime_ms: int
    """The longest time from append that one of these dead letters must be kept."""

    def absorb(self, later: _Segment) -> None:
        self.last_offset = later.last_offset
        self.number += later.number
        self.oldest_ms = min(self.oldest_ms, later.oldest_ms)
        self.first_expiry_ms = min(self.first_expiry_ms, later.first_expiry_ms)
        self.last_expiry_ms = max(self.last_expiry_ms, later.last_expiry_ms)
        self.lifetime_ms = max(self.lifetime_ms, later.lifetime_ms)

    def drop_before(self, start: int) -> None:
        """Drop the dead letters below the offset ``start``, as if offsets were spread evenly."""
        kept = -(-self.number * (self.last_offset - start + 1) // (self.last_offset - self.first_offset + 1))
        self.first_offset, self.number = start, max(1, kept)

    def expired(self, now_ms: int) -> int:
        """Return how many dead letters have expired, as if expirations were spread evenly."""
        if now_ms < self.first_expiry_ms:
            return 0
        if now_ms >= self.last_expiry_ms:
            return self.number
        if self.last_expiry_ms == NEVER:
            return 0  # the policy changed within this segment: some never expire, and their number is unknown
        return self.number * (now_ms - self.first_expiry_ms) // (self.last_expiry_ms - self.first_expiry_ms)


class DeadLetterSummary:
    """Grows at its end and is cut at its start, like the partition. The partition is never read again.

    The summary consists of segments of equal size. When there are too many, each two neighbours are merged and the
    size doubles, so the memory does not grow with the number of dead letters.
    """

    def __init__(self, *, moves_expired: bool = False) -> None:
        """Create an empty summary.

        Args:
            moves_expired: whether expired dead letters are moved elsewhere. Retention must then never delete them.
        """
        self._moves_expired = moves_expired
        self._segments: list[_Segment] = []
        self._segment_size = 1
        self._total: _Segment | None = None
        """All segments merged: the answer while no dead letter has expired. ``None`` = to be merged again."""

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self._segments)

    def add(self, offset: int, timestamp_ms: int, expires_ms: int, max_segments: int = MAX_SEGMENTS) -> None:
        """Add a dead letter behind all others.

        Args:
            offset: its offset.
            timestamp_ms: its append time (epoch ms).
            expires_ms: its expiration (epoch ms), or :data:`NEVER`.
            max_segments: the number of segments that the summary may have.
        """
        lifetime_ms = NEVER if self._moves_expired or expires_ms == NEVER else expires_ms - timestamp_ms
        added = _Segment(offset, offset, 1, timestamp_ms, expires_ms, expires_ms, lifetime_ms)
        segments = self._segments
        if self._total is not None:
            self._total.absorb(added)
        if segments and segments[-1].number < self._segment_size:
            segments[-1].absorb(added)
        else:
            segments.append(added)
        while len(segments) > max_segments:
            self._segment_size *= 2
            for left, right in zip(segments[::2], segments[1::2], strict=False):
                left.absorb(right)
            self._segments = segments = segments[::2]

    def drop_before(self, start: int) -> None:
        """Drop the dead letters below the offset ``start``, because they were deleted."""
        segments = self._segments
        dropped = 0
        while dropped < len(segments) and segments[dropped].last_offset < start:
            dropped += 1
        del segments[:dropped]
        if segments and segments[0].first_offset < start:
            segments[0].drop_before(start)
        if not segments:
            self._segment_size = 1
        self._total = None

    def count(self, now_ms: int) -> DeadLetterCount:
        """Count the dead letters as of ``now_ms`` (epoch ms)."""
        total = self._merged()
        if total is not None and now_ms < total.first_expiry_ms:
            return DeadLetterCount(total.number, 0, total.oldest_ms)
        depth = expired = 0
        oldest_ms: int | None = None
        for segment in self._segments:
            gone = segment.expired(now_ms)
            expired += gone
            if gone < segment.number:
                depth += segment.number - gone
                oldest_ms = segment.oldest_ms if oldest_ms is None else min(oldest_ms, segment.oldest_ms)
        return DeadLetterCount(depth, expired, oldest_ms)

    def loss_ms(self, now_ms: int, retention_ms: int) -> int | None:
        """When retention may first delete a dead letter that must be kept longer (epoch ms), ``None`` = never.

        Args:
            now_ms: epoch ms; dead letters that have expired by then need not be kept.
            retention_ms: the retention time of the topic.
        """
        total = self._merged()
        if total is None or total.lifetime_ms <= retention_ms:
            return None
        endangered = [
            segment.oldest_ms
            for segment in self._segments
            if segment.lifetime_ms > retention_ms and segment.expired(now_ms) < segment.number
        ]
        return min(endangered) + retention_ms if endangered else None

    def _merged(self) -> _Segment | None:
        if self._total is None and self._segments:
            self._total = replace(self._segments[0])
            for segment in self._segments[1:]:
                self._total.absorb(segment)
        return self._total


class DeadLetterCounter:
    """Counts the dead letters of its partitions. Used by one thread; does no input or output.

    Dead letters of another group are skipped, because the schedulers of that group count them. A record without
    readable headers has no group: every group counts it, as unknown.
    """

    def __init__(self, settings: Settings) -> None:
        self._group = settings.group.encode()
        self._sources = {source.topic.encode(): source.topic for source in settings.sources}
        self._next_offsets: dict[Partition, int] = {}
        self._summaries: dict[Partition, dict[DeadLetterLabel, DeadLetterSummary]] = {}
        self._marks: dict[str, str] = {}
        """The mark of each topic, as far as it is known."""

        self._max_segments = MAX_SEGMENTS
        self._retention_ms: dict[str, int | None] = {}
        self._plan = sweep_plan(settings)

    @property
    def segments(self) -> int:
        """Number of segments of all summaries: the measure of the memory that they take."""
        return sum(len(summary) for summaries in self._summaries.values() for summary in summaries.values())

    def assign(self, topics: Mapping[str, TopicFacts], wanted: Iterable[Partition]) -> dict[Partition, int]:
        """Count exactly these partitions from now on, and drop what was deleted from them.

        Args:
            topics: the current state of the dead-letter topics.
            wanted: the partitions. One whose bounds are unknown stays as it is.

        Returns:
            for each partition the next offset to read.
        """
        self._retention_ms = {name: _retention(topic) for name, topic in topics.items()}
        again = {name for name, topic in topics.items() if is_other_topic(self._marks.get(name, ""), topic.mark)}
        self._marks |= {name: topic.mark for name, topic in topics.items() if topic.mark}
        wanted = set(wanted)
        for partition in [each for each in self._next_offsets if each not in wanted or each.topic in again]:
            del self._next_offsets[partition], self._summaries[partition]
        for partition in wanted:
            bounds = topics[partition.topic].bounds.get(partition.number)
            if bounds is not None:
                self._keep_within(partition, bounds)
        return dict(self._next_offsets)

    def _keep_within(self, partition: Partition, bounds: Bounds) -> None:
        position = self._next_offsets.get(partition)
        if position is None or position > bounds.end:  # new, or a broker without ids has another topic of the name
            self._next_offsets[partition], self._summaries[partition] = bounds.start, {}
            return
        self._next_offsets[partition] = max(position, bounds.start)
        for label, summary in list(self._summaries[partition].items()):
            summary.drop_before(bounds.start)
            if not len(summary):
                del self._summaries[partition][label]

    def add(self, messages: Iterable[Message]) -> None:
        """Count fetched records; one that was counted before is skipped."""
        for message in messages:
            partition, offset = Partition(message.topic(), message.partition()), message.offset()
            if offset < self._next_offsets.get(partition, NEVER):
                continue
            self._next_offsets[partition] = offset + 1
            headers = readable_headers(message)
            label = self._label(dict(headers))
            if label is not None:
                summary = self._summary(partition, label)
                summary.add(offset, message.timestamp()[1], read_expiration(headers) or NEVER, self._max_segments)

    def _label(self, headers: Mapping[str, bytes | None]) -> DeadLetterLabel | None:
        """The kind of a dead letter, ``None`` if it belongs to another group."""
        group = headers.get(ORIG_QUEUE)
        if group is not None and group != self._group:
            return None
        source = self._sources.get(headers.get(ORIG_ADDRESS) or b"", UNKNOWN_SOURCE)
        return DeadLetterLabel(source, _reason(headers.get(FAILURE_CAUSE)))

    def _summary(self, partition: Partition, label: DeadLetterLabel) -> DeadLetterSummary:
        summaries = self._summaries[partition]
        summary = summaries.get(label)
        if summary is None:
            moves_expired = self._plan.expiry_topic(partition.topic, label.topic) is not None
            summary = summaries[label] = DeadLetterSummary(moves_expired=moves_expired)
            number = sum(len(each) for each in self._summaries.values())
            self._max_segments = max(_MIN_SEGMENTS, min(MAX_SEGMENTS, _MAX_SEGMENTS_IN_ALL // number))
        return summary

    def counts(self, now_ms: int, unread: Mapping[Partition, int]) -> DeadLetterCounts:
        """Return the counts for the observer.

        Args:
            now_ms: epoch ms.
            unread: by partition, the number of records that are not counted yet.
        """
        kinds: dict[DeadLetterLabel, DeadLetterCount] = {}
        topics: dict[str, DeadLetterTopic] = {}
        for partition, summaries in self._summaries.items():
            retention_ms = self._retention_ms.get(partition.topic)
            loss_ms = None
            for label, summary in summaries.items():
                kinds[label] = _sum(kinds.get(label), summary.count(now_ms))
                if retention_ms is not None:
                    loss_ms = _earlier(loss_ms, summary.loss_ms(now_ms, retention_ms))
            before = topics.get(partition.topic)
            topics[partition.topic] = DeadLetterTopic(
                unread=unread.get(partition, 0) + (0 if before is None else before.unread),
                retention_ms=retention_ms,
                loss_ms=loss_ms if before is None else _earlier(loss_ms, before.loss_ms),
            )
        return DeadLetterCounts(kinds, topics)


def _reason(cause: bytes | None) -> str:
    """The reason in a failure cause if it is a known one: the number of labels must stay bounded."""
    if cause is None:
        return UNKNOWN_REASON
    known = _CAUSE_PREFIXES.get(cause.partition(b",")[0])
    if known is not None:
        return known
    if len(cause) > _MAX_CAUSE_BYTES:
        return UNKNOWN_REASON
    try:
        document = json.loads(cause)
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        return UNKNOWN_REASON
    reason = document.get("reason") if isinstance(document, dict) else None
    return reason if isinstance(reason, str) and reason in _REASONS else UNKNOWN_REASON


def _retention(topic: TopicFacts) -> int | None:
    value = topic.config(RETENTION_MS)
    return None if value is None or int(value) < 0 else int(value)


def _sum(first: DeadLetterCount | None, second: DeadLetterCount) -> DeadLetterCount:
    if first is None:
        return second
    return DeadLetterCount(
        first.depth + second.depth, first.expired + second.expired, _earlier(first.oldest_ms, second.oldest_ms)
    )


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((each for each in (first, second) if each is not None), default=None)


_log = logging.getLogger(__name__)

_REFRESH_S = 10.0
"""Interval at which topics and owners are looked up."""

_QUICK_REFRESH_S = 2.0
"""The same while a partition has no owner, or after the share has changed."""

_REPORT_S = 2.0
_REPORT_FACTOR = 20.0
"""Minimum time between two reports, as a multiple of the processor time of a report."""

_POLL_S = 0.5
_BATCH = 250
"""Records per fetch: a few milliseconds, the time that the scheduler's thread may have to wait for this one."""

_IDLE_FACTOR = 2.0
"""Idle time as a multiple of the processor time used: counting takes at most a third of one processor."""

_RESTART_S = 30.0
"""Time between an error and the restart."""

_NOTE = "dead letters"
"""The subject of the note in the readiness probe."""

_MANY_UNREAD = 50_000
"""Number of uncounted dead letters above which the log reports them."""


class PartitionShare(NamedTuple):
    """The partitions that one scheduler counts, the same in every topic."""

    numbers: frozenset[int]
    modulus: int

    @classmethod
    def of(cls, topic: str, count: int, owned: Iterable[Partition]) -> PartitionShare:
        """Return the share of a process that owns these partitions of a topic; without a topic it has everything."""
        if not topic:
            return cls(frozenset({0}), 1)
        return cls(frozenset(partition.number for partition in owned if partition.topic == topic), count)

    def has(self, partition: int) -> bool:
        """Whether the partition with this number belongs to the share."""
        return partition % self.modulus in self.numbers


class DeadLetterMonitor:
    """Counts the dead letters of a share of the partitions. Used by one thread.

    A partition that cannot be read is left out and tried again. It counts as halted and appears in the readiness probe.
    """

    def __init__(
        self,
        settings: Settings,
        observer: DeadLetterObserver,
        health: Health,
        share: Callable[[], PartitionShare],
        tiers: Callable[[], Iterable[str]],
        clock: Clock,
    ) -> None:
        """Create the monitor; :meth:`run` opens its clients.

        Args:
            settings: the configuration.
            observer: receives the counts.
            health: receives what is wrong with partitions that cannot be read.
            share: returns the current share of this scheduler.
            tiers: returns the tiers that the schedulers read, the mixed topic included.
            clock: epoch ms.
        """
        self._settings = settings
        self._observer = observer
        self._health = health
        self._share = share
        self._tiers = tiers
        self._clock = clock
        self._counter = DeadLetterCounter(settings)
        self._topics: dict[str, TopicFacts] = {}
        self._unowned: dict[str, int] = {}
        self._catching_up = False
        self._current_share: PartitionShare | None = None
        self._names = sweep_plan(settings).topics

    def run(self, ended: threading.Event) -> None:
        """Count and report until the event is set.

        Raises:
            TransportError: Kafka does not answer, or denies access.
        """
        kafka = self._settings.kafka
        admin, members = ClusterAdmin(kafka), GroupMembers(kafka)
        reader = AssignedReader(kafka, scheduler_group(self._settings.group), endures=True)
        refreshed_s = -_REFRESH_S
        next_report_s = 0.0
        try:
            while not ended.is_set():
                if self._is_stale(monotonic_s() - refreshed_s):
                    self._refresh(admin, members, reader)
                    refreshed_s = monotonic_s()
                started_s = thread_cpu_s()
                self._counter.add(reader.fetch(_BATCH, _POLL_S).messages)
                ended.wait((thread_cpu_s() - started_s) * _IDLE_FACTOR)
                if monotonic_s() >= next_report_s:
                    started_s = thread_cpu_s()
                    self._report(reader)
                    next_report_s = monotonic_s() + max(_REPORT_S, (thread_cpu_s() - started_s) * _REPORT_FACTOR)
        finally:
            reader.close()

    def _is_stale(self, age_s: float) -> bool:
        if self._share() != self._current_share or any(self._unowned.values()):
            return age_s >= _QUICK_REFRESH_S
        return age_s >= _REFRESH_S

    def _refresh(self, admin: ClusterAdmin, members: GroupMembers, reader: AssignedReader) -> None:
        """Look up topics and owners, assign this scheduler's share, and report partitions without an owner."""
        naming = self._settings.naming()
        share = self._current_share = self._share()
        sources = [source.topic for source in self._settings.sources]
        ready = [naming.ready_topic(source) for source in sources]
        tiers = self._tiers()
        found = admin.topic_facts([*self._names, *sources, *ready, *tiers], self._names)
        self._topics = {name: found[name] for name in self._names if name in found}
        wanted = [
            Partition(name, number)
            for name, topic in self._topics.items()
            for number in range(topic.partitions)
            if share.has(number)
        ]
        reader.assign(self._counter.assign(self._topics, wanted))
        for group, topics in ((self._settings.group, sources + ready), (scheduler_group(self._settings.group), tiers)):
            partitions = {name: found[name].partitions for name in topics if name in found}
            self._unowned = {name: number for name, number in self._unowned.items() if name in found}
            # During a rebalance there is no answer, and the previous numbers stay.
            self._unowned.update(members.unowned(group, partitions) or {})
        self._observer.unowned_partitions(dict(self._unowned))

    def _report(self, reader: AssignedReader) -> None:
        unread = {
            Partition(name, number): reader.lag(Partition(name, number), bounds.end)
            for name, topic in self._topics.items()
            for number, bounds in topic.bounds.items()
            if self._current_share is not None and self._current_share.has(number)
        }
        counts = self._counter.counts(self._clock(), unread)
        self._observer.dead_letter_counts(replace(counts, halted=Counter(map(_label, reader.errors.items()))))
        problems = sorted({str(error) for error in reader.errors.values()})
        self._health.note(_NOTE, "\n".join(f"{problem}; its dead letters are not counted" for problem in problems))
        left = sum(unread.values())
        if left > _MANY_UNREAD:
            self._catching_up = True
            _log.info("%d dead letters are not counted yet", left)
        elif self._catching_up and not left:
            self._catching_up = False
            _log.info("all dead letters are counted")


def _label(halted: tuple[Partition, ReaderError]) -> HaltLabel:
    partition, error = halted
    return HaltLabel(
        partition.topic, HaltCause.FORBIDDEN if isinstance(error, TopicForbiddenError) else HaltCause.UNFETCHABLE
    )


def dead_letter_monitor(
    settings: Settings,
    observer: DeadLetterObserver,
    health: Health,
    share: Callable[[], PartitionShare],
    tiers: Callable[[], Iterable[str]],
    clock: Clock,
) -> AbstractContextManager[None]:
    """Run a monitor in a thread while the block runs, if a metrics endpoint is configured.

    After an error the monitor restarts from the beginning; until then its metrics are absent rather than outdated.
    """
    if settings.metrics.port is None:
        return nullcontext()

    def clear_metrics() -> None:
        observer.dead_letter_counts(DeadLetterCounts())
        observer.unowned_partitions({})
        health.note(_NOTE, "")

    return background_thread(
        "dead-letters",
        lambda ended: DeadLetterMonitor(settings, observer, health, share, tiers, clock).run(ended),
        "dead letters are not counted",
        restart_s=_RESTART_S,
        on_error=clear_metrics,
    )
