"""Where a group stands in its topics, and reading a bounded number of their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import HeaderError, ProgressError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.topology.wire.headers import (
    FAILURE_CAUSE,
    FailureCause,
    read_due,
    read_failure_cause,
    read_partial_lineage,
)
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.topic_mark import is_void
from kafka_redelivery.transport.admin.cluster_admin import ListedTopics
from kafka_redelivery.transport.admin.partition_offsets import CommittedOffsets, PartitionOffsets
from kafka_redelivery.transport.admin.topics import topic_marks
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Message, Partition

_REPORTED_EACH = 1000

Report = Callable[[int, int], None]
"""Gets the number of records that were read, and of those to read."""

Ranges = Mapping[Partition, tuple[int, int]]
"""The first offset and the end of what is to be read of each partition."""


@dataclass(frozen=True, slots=True)
class Positions:
    """Where a group stands in some partitions."""

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    committed: Mapping[Partition, Checkpoint]
    log_ends: Mapping[Partition, int] = field(default_factory=dict, compare=False)
    """The ends with what is in and behind open transactions, which no reader of committed records sees."""

    @classmethod
    def of(
        cls,
        offsets: PartitionOffsets,
        group: str | CommittedOffsets | None,
        partitions: list[Partition],
        marks: Mapping[str, str] | None = None,
    ) -> Positions:
        """Ask Kafka. What was committed in older topics of these names counts as not committed.

        Args:
            offsets: asks for offsets.
            group: without a group nothing is committed; of a group by its name a new client asks.
            partitions: the partitions.
            marks: the mark of each topic, if they are known already.
        """
        # In this order a group that commits meanwhile is never outside the bounds, and what is written meanwhile does
        # not seem to be behind an open transaction.
        starts = offsets.log_start_offsets(partitions)
        if isinstance(group, CommittedOffsets):
            committed = group.ask(partitions)
        else:
            committed = {} if group is None else offsets.committed(group, partitions)
        if marks is None:
            marks = topic_marks(offsets.calls, {each.topic for each in committed})
        present = {each: at for each, at in committed.items() if not is_void(at.metadata, marks.get(each.topic, ""))}
        log_ends = offsets.high_watermarks(partitions)
        return cls(starts, offsets.last_stable_offsets(partitions), present, log_ends)

    def unfinished(self, partition: Partition) -> tuple[int, int]:
        """Return the first offset that is not finished, and the end offset."""
        end, committed = self.ends[partition], self.committed.get(partition)
        first = self.starts[partition] if committed is None else max(self.starts[partition], committed.offset)
        return min(first, end), end

    def ranges(self) -> dict[Partition, tuple[int, int]]:
        """Return what is not finished of each partition that has such records."""
        return {each: (first, end) for each in self.ends for first, end in (self.unfinished(each),) if first < end}

    def hidden(self) -> dict[Partition, tuple[int, int]]:
        """Return the offsets that are in or behind an open transaction, of each partition that has some."""
        return {each: (end, self.log_ends[each]) for each, end in self.ends.items() if end < self.log_ends.get(each, 0)}

    def progress(self, partition: Partition, author: int | None = None) -> Progress:
        """Return which records above the committed offset are finished.

        Args:
            partition: the partition.
            author: as of :meth:`Progress.restore`: with it, also which may be in a handler.
        """
        committed = self.committed.get(partition)
        if committed is None:
            return Progress(self.starts[partition])
        try:
            return Progress.restore(committed.offset, committed.metadata, author)
        except ProgressError:
            return Progress(committed.offset)  # what is finished above it is unknown


def configured_tiers(settings: Settings) -> list[str]:
    """Return the topics in which records wait for the delays that the configuration has now."""
    naming, tiers = settings.naming(), tier_set(settings.entries().values())
    return [*map(naming.tier_topic, tiers.delays_ms), *([naming.mixed_topic()] if tiers.mixed else [])]


def hidden_topics(topics: Iterable[str], counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what to say about each topic that Kafka does not show."""
    for topic in topics:
        if topic not in counts:
            yield (
                f"there is no topic {topic}, or it may not be described; run: redelivery topology apply (a source is "
                f"yours to create){grant(f'Read on topic {topic}')}"
            )


def led_and_leaderless(topics: Iterable[str], listed: ListedTopics) -> tuple[list[Partition], frozenset[Partition]]:
    """Return the partitions of those topics that exist: those that have a leader, and those that have none."""
    every = partitions_of(topics, listed.partition_counts)
    leaderless = listed.leaderless.intersection(every)
    return [each for each in every if each not in leaderless], leaderless


def partitions_of(topics: Iterable[str], counts: Mapping[str, int]) -> list[Partition]:
    """Return all partitions of those topics that exist."""
    return [Partition(topic, number) for topic in topics for number in range(counts.get(topic, 0))]


def read_unfinished(
    settings: Settings, positions: Positions, limit: int, report: Report, ranges: Ranges | None = None
) -> Iterator[Message]:
    """Yield the unfinished records, the first of each partition before its others; see :func:`read`.

    ``ranges``: where to read, without it wherever something is not finished.
    """
    ranges = positions.ranges() if ranges is None else ranges
    progress = {each: positions.progress(each) for each in ranges}
    for message in read(settings, ranges, limit, report):
        if progress[Partition(message.topic(), message.partition())].track(message.offset()):
            yield message


def open_since_ms(settings: Settings, hidden: Ranges) -> dict[Partition, int]:
    """Return when the first record of each of these open transactions was written (epoch ms).

    Args:
        settings: the configuration.
        hidden: what :meth:`Positions.hidden` has returned.
    """
    firsts = {each: (first, first + 1) for each, (first, _) in hidden.items()}
    found = read(settings, firsts, len(firsts), lambda *_: None, uncommitted=True)
    return {Partition(each.topic(), each.partition()): each.timestamp()[1] for each in found}


def read(
    settings: Settings, ranges: Ranges, limit: int, report: Report, *, uncommitted: bool = False
) -> Iterator[Message]:
    """Yield the first records of each of these ranges, about ``limit`` in all.

    Args:
        settings: the configuration.
        ranges: what to read.
        limit: how many records to read at most.
        report: gets the progress.
        uncommitted: whether to read records of open and aborted transactions, too.

    Raises:
        ReaderError: Kafka refuses, or sends nothing for a long time.
    """
    starts = {each: first for each, (first, _) in ranges.items()}
    ends = shares(ranges, limit)
    total = sum(end - starts[each] for each, end in ends.items())
    found = read_between(settings.kafka, settings.group, starts, ends, uncommitted=uncommitted)
    for number, message in enumerate(found):
        if number % _REPORTED_EACH == 0:
            report(number, total)
        yield message


def shares(ranges: Ranges, limit: int) -> dict[Partition, int]:
    """Return up to which offset each range is read: all have the same share, and small ones leave theirs to others."""
    ends: dict[Partition, int] = {}
    for left, (partition, (first, end)) in zip(
        range(len(ranges), 0, -1), sorted(ranges.items(), key=lambda each: each[1][1] - each[1][0]), strict=True
    ):
        size = min(end - first, max(1, limit // left))
        ends[partition] = first + size
        limit -= size
    return ends


def known_lineage(message: Message) -> Lineage:
    """Return where a record came from, as far as its headers say it; the rest is its own place and time."""
    itself = Lineage(message.topic(), message.partition(), message.offset(), message.timestamp()[1])
    return read_partial_lineage(readable_headers(message), itself)


def due_ms(message: Message) -> int:
    """Return when a waiting record is due (epoch ms); of a damaged one its timestamp."""
    try:
        found = read_due(readable_headers(message))
    except HeaderError:
        found = None
    return message.timestamp()[1] if found is None else found


def last_failure(message: Message) -> FailureCause:
    """Return why a retry record or a dead letter failed the last time; empty on retry records of older versions."""
    return read_failure_cause(dict(readable_headers(message)).get(FAILURE_CAUSE))
