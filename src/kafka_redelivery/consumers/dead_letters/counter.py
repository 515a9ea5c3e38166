"""Counts the contents of the dead-letter topics from the headers of each record, which is read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from kafka_redelivery.consumers.dead_letters.summary import MAX_SEGMENTS, NEVER, DeadLetterSummary
from kafka_redelivery.consumers.routes import UNKNOWN_SOURCE
from kafka_redelivery.consumers.telemetry.observers import (
    DeadLetterCount,
    DeadLetterCounts,
    DeadLetterLabel,
    DeadLetterTopic,
)
from kafka_redelivery.topology.cluster.facts import RETENTION_MS, Bounds, TopicFacts
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
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message, Partition

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
        wanted = set(wanted)
        for partition in self._next_offsets.keys() - wanted:
            del self._next_offsets[partition], self._summaries[partition]
        for partition in wanted:
            bounds = topics[partition.topic].bounds.get(partition.number)
            if bounds is not None:
                self._keep_within(partition, bounds)
        return dict(self._next_offsets)

    def _keep_within(self, partition: Partition, bounds: Bounds) -> None:
        position = self._next_offsets.get(partition)
        if position is None or position > bounds.end:  # a new partition, or its topic was deleted and created again
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
            try:
                headers = headers_of(message)
            except UnreadableHeadersError:
                headers = []
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
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
