"""The offsets and settings that an audit uses, read in an order in which a running group causes no false findings.

A record moves on in one transaction: its commit and its successor, for example a retry record, become visible together.
The snapshot therefore reads commits before it reads the ends of the successors' topics:

1. log start offsets,
2. end offsets, to recognise records that were written later,
3. committed offsets,
4. end offsets again, including open transactions; then it waits until these transactions have ended.

A record that is finished at step 3 has its successor before step 4. A record that moves on after step 3 is seen twice;
its successor is then after the end offset of step 2, which distinguishes the pair from a doubled record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from kafka_redelivery.consumers.operations.waiting import partitions_of
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.pipeline.frames import ReaderProgress, read_progress, stable_ends
from kafka_redelivery.topology.cluster.facts import CLEANUP, RETENTION_MS, ClusterFacts
from kafka_redelivery.topology.cluster.plan import Role, TopologyPlan, plan, scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

_MAX_WAIT_S: Final = 60.0
"""Longer than our transactions can stay open: 30 s timeout plus the broker's check every 10 s."""

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class RangeBound:
    """One bound of the range: an offset for every partition, a time, or offsets of some partitions."""

    option: str
    """The option that gives it."""

    offset: int | None = None
    epoch_ms: int | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)

    def of(
        self, positions: PartitionOffsets, wanted: Iterable[Partition], ends: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Return the offset in each partition. Partitions that the bound does not name are missing.

        Args:
            positions: resolves times to offsets.
            wanted: the partitions of the sources.
            ends: the end offsets; used for a time after the last record.
        """
        wanted = list(wanted)
        if self.epoch_ms is not None:
            return {
                **{partition: ends[partition] for partition in wanted},
                **positions.offsets_for_time(wanted, self.epoch_ms),
            }
        if self.offset is not None:
            return dict.fromkeys(wanted, self.offset)
        unknown = [partition for partition in self.offsets if partition not in set(wanted)]
        if unknown:
            raise OptionError(
                self.option,
                f"{unknown[0].topic}-{unknown[0].number} is not a partition of a source of this configuration; "
                "name partitions as in orders-0@1500",
            )
        return dict(self.offsets)


def parse_bound(texts: Sequence[str], option: str) -> RangeBound | None:
    """Parse an offset (``1500``), a time (``2026-11-01T08:00:00Z``, UTC by default) or some ``topic-partition@offset``.

    Args:
        texts: one of them, or several places.
        option: the option that gives them.

    Returns:
        ``None`` if ``texts`` is empty.

    Raises:
        OptionError: a text is none of these, or the texts cannot be combined.
    """
    if not texts:
        return None
    if all("@" in text for text in texts):
        return RangeBound(option, offsets=dict(_place(text, option) for text in texts))
    if len(texts) > 1:
        raise OptionError(
            option,
            f"{texts[0]!r} and {texts[1]!r} cannot be combined: give one offset, one time, or only "
            "topic-partition@offset",
        )
    text = texts[0]
    if _DIGITS.fullmatch(text):
        return RangeBound(option, offset=int(text))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            option, f"{text!r} is not an offset (1500), a time (2026-11-01T08:00:00Z) or topic-partition@offset"
        ) from None
    time = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return RangeBound(option, epoch_ms=round(time.timestamp() * _MS))


def _place(text: str, option: str) -> tuple[Partition, int]:
    try:
        topic, partition, offset = parse_message_id(text)
    except ValueError as error:
        raise OptionError(option, str(error)) from None
    return Partition(topic, partition), offset


class TopicKind(StrEnum):
    """The kind of a topic of the group."""

    TIER = "tier"
    READY = "ready"
    LETTER = "letter"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets that the audit reads from one partition of the group's topics."""

    partition: Partition
    start: int
    end: int
    """Exclusive. All transactions before it have ended."""

    early: int
    """The end offset before the commits were read. Records from here on may be newer than the commits."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The audited offsets of one source partition."""

    partition: Partition
    first: int
    end: int
    """Exclusive."""

    log_start: int


@dataclass(frozen=True, slots=True)
class RemovedRange:
    """Offsets that Kafka removed before the reader of the partition read them."""

    partition: Partition
    first: int
    end: int
    """Exclusive."""

    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All offsets of an audit, and the settings that decide which records may have been removed."""

    group: str
    taken_ms: int
    journal: bool
    """Whether the journal is used."""

    sources: tuple[SourceRange, ...]
    marks: Mapping[str, str]
    """The mark of each topic, as far as it is known; see :mod:`kafka_redelivery.topology.wire.topic_mark`."""

    created_again: frozenset[str]
    """Topics in which the group has a commit of an older topic of that name, which counts as none."""

    spans: Mapping[TopicKind, tuple[Span, ...]]
    progress: Mapping[Partition, ReaderProgress]
    """Progress of the group, of its schedulers, and of the sweeper, which moves expired dead letters."""

    removed: tuple[RemovedRange, ...]
    horizon_ms: int
    """Finished records of the group's topics that are older (epoch ms) may have been removed."""

    letter_lifetimes_ms: Mapping[str, int]
    """The age in ms at which dead letters may have been removed, by source topic; 0 = never."""

    discarding: frozenset[str]
    """Source topics whose records a scheduler may drop if it cannot release them."""

    compacted: frozenset[str]
    """Source topics from which compaction may remove a record."""

    sweeps: SweepPlan
    damaged: tuple[Partition, ...]
    """Partitions whose commit has metadata that cannot be decoded."""

    def starts(self) -> dict[Partition, int]:
        """Return the first offset that is read from each partition."""
        found = {source.partition: source.first for source in self.sources if source.first < source.end}
        return found | {
            span.partition: span.start for spans in self.spans.values() for span in spans if span.start < span.end
        }


_KINDS: Final = {
    Role.RETRY: TopicKind.TIER,
    Role.MIXED: TopicKind.TIER,
    Role.READY: TopicKind.READY,
    Role.DEAD_LETTER: TopicKind.LETTER,
    Role.JOURNAL: TopicKind.JOURNAL,
}


def take_snapshot(
    settings: Settings,
    now_ms: int,
    first: RangeBound | None = None,
    end: RangeBound | None = None,
    *,
    journal: bool = True,
) -> Snapshot:
    """Read all offsets now.

    Args:
        settings: the configuration.
        now_ms: epoch ms.
        first: the start of the range; by default the log start offsets.
        end: the end of the range; by default the offset that the group has read to.
        journal: whether to use the journal if the configuration has one.

    Raises:
        PipelineError: a transaction stays open.
        OptionError: the range names a partition that does not belong to a source.
        TransportError: the cluster does not answer.
    """
    admin, offsets = ClusterAdmin(settings.kafka), PartitionOffsets(settings.kafka)
    planned = plan(settings, admin.describe([source.topic for source in settings.sources], {}).topics)
    names = [topic.name for topic in planned.topics if topic.role in _KINDS]
    cluster = admin.describe([*names, *planned.retired_names(admin.topic_names())], {})
    counts = {name: facts.partitions for name, facts in {**planned.sources, **cluster.topics}.items()}
    marks = {name: facts.mark for name, facts in {**planned.sources, **cluster.topics}.items()}
    own: dict[TopicKind, list[Partition]] = {kind: [] for kind in TopicKind}
    for topic in (*planned.topics, *planned.retired(cluster.topics)):
        if topic.role in _KINDS and (journal or topic.role is not Role.JOURNAL):
            own[_KINDS[topic.role]] += partitions_of([topic.name], counts)
    copies = [partition for partitions in own.values() for partition in partitions]
    sources = partitions_of(planned.sources, counts)
    sweeps = sweep_plan(settings)
    readers = {planned.group: [*sources, *own[TopicKind.READY]], scheduler_group(planned.group): own[TopicKind.TIER]}
    moved = {sweeper_group(planned.group): own[TopicKind.LETTER]} if sweeps.moving else {}

    starts = offsets.log_start_offsets([*sources, *copies])
    early = offsets.last_stable_offsets(copies)
    progress = read_progress(offsets, readers | moved, marks)
    ends, undecided = stable_ends(offsets, copies, _MAX_WAIT_S)
    for partition, before in undecided.items():
        raise PipelineError(
            f"a transaction in {partition} before offset {before} has been open for {_MAX_WAIT_S:g} s, so its records "
            "are undecided; find its producer with `kafka-transactions.sh find-hanging`, and audit again when it has "
            "ended"
        )
    source_ends = offsets.last_stable_offsets(sources)
    return Snapshot(
        group=planned.group,
        taken_ms=now_ms,
        journal=journal and settings.journal,
        sources=_ranges(offsets, sources, starts, source_ends, progress.partitions, (first, end)),
        marks=marks,
        created_again=progress.created_again,
        spans={
            kind: tuple(Span(each, starts[each], ends[each], early[each]) for each in partitions)
            for kind, partitions in own.items()
        },
        progress=progress.partitions,
        removed=tuple(
            RemovedRange(each, at.watermark, starts[each], reader)
            for reader, partitions in readers.items()
            for each in partitions
            if (at := progress.partitions.get(each)) is not None and at.watermark < starts[each]
        ),
        horizon_ms=now_ms - settings.topics.audit_horizon // timedelta(milliseconds=1),
        letter_lifetimes_ms=_letter_lifetimes(settings, planned, cluster),
        discarding=frozenset(
            source
            for source, entry in settings.entries().items()
            if not (
                entry.dead_letter_strategy.process_poison
                and entry.dead_letter_strategy.accepts(persistent=True, expired=False)
            )
        ),
        compacted=frozenset(
            name for name, facts in planned.sources.items() if "compact" in (facts.config(CLEANUP) or "")
        ),
        sweeps=sweeps,
        damaged=progress.damaged,
    )


def _ranges(
    offsets: PartitionOffsets,
    sources: list[Partition],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    progress: Mapping[Partition, ReaderProgress],
    bounds: tuple[RangeBound | None, RangeBound | None],
) -> tuple[SourceRange, ...]:
    firsts = {} if bounds[0] is None else bounds[0].of(offsets, sources, ends)
    lasts = {} if bounds[1] is None else bounds[1].of(offsets, sources, ends)
    found = []
    for partition in sources:
        first = max(firsts.get(partition, 0), starts[partition])
        read = progress[partition].seen if partition in progress else first
        end = min(lasts.get(partition, read), ends[partition])
        found.append(SourceRange(partition, first, max(first, end), starts[partition]))
    return tuple(found)


def _letter_lifetimes(settings: Settings, planned: TopologyPlan, cluster: ClusterFacts) -> dict[str, int]:
    """Return the age in ms at which a dead letter may be removed, by expiration or retention; 0 = never."""
    letter_lifetimes_ms = {}
    for source, entry in settings.entries().items():
        strategy = entry.dead_letter_strategy
        letters = [
            cluster.topics[topic.name]
            for topic in planned.topics
            if topic.role is Role.DEAD_LETTER and source in topic.sources and topic.name in cluster.topics
        ]
        limits = [strategy.expiration, *(int(topic.configs.get(RETENTION_MS, "-1")) for topic in letters)]
        letter_lifetimes_ms[source] = min((limit for limit in limits if limit > 0), default=0)
    return letter_lifetimes_ms
