"""Takes the snapshot of an audit, in an order in which a running group causes no false findings.

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

import threading
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.pipeline.audit.range import RangeBound
from kafka_redelivery.pipeline.audit.snapshot import Kind, RemovedRange, Snapshot, SourceRange, Span
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.pipeline.frames.progress_frames import ReaderProgress, decode_progress
from kafka_redelivery.topology.cluster.facts import CLEANUP, RETENTION_MS, ClusterFacts
from kafka_redelivery.topology.cluster.plan import Role, TopologyPlan, plan, scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import is_void
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

_MAX_WAIT_S: Final = 60.0
"""Longer than our transactions can stay open: 30 s timeout plus the broker's check every 10 s."""

_POLL_S: Final = 0.05


class OpenTransactionError(PipelineError):
    """A transaction has stayed open for a minute. The message names the partition."""


_KINDS: Final = {
    Role.RETRY: Kind.TIER,
    Role.MIXED: Kind.TIER,
    Role.READY: Kind.READY,
    Role.DEAD_LETTER: Kind.LETTER,
    Role.JOURNAL: Kind.JOURNAL,
}


def describe_topics(admin: ClusterAdmin, settings: Settings) -> tuple[TopologyPlan, ClusterFacts]:
    """Return the topics of the group, and those of them that an audit reads as they are in the cluster.

    Raises:
        TransportError: the cluster does not answer.
    """
    planned = plan(settings, admin.describe([source.topic for source in settings.sources], {}).topics)
    names = [topic.name for topic in planned.topics if topic.role in _KINDS]
    return planned, admin.describe([*names, *planned.retired_names(admin.topic_names())], {})


def take_snapshot(
    settings: Settings,
    planned: TopologyPlan,
    cluster: ClusterFacts,
    positions: PartitionOffsets,
    now_ms: int,
    first: RangeBound | None = None,
    end: RangeBound | None = None,
    *,
    journal: bool = True,
) -> Snapshot:
    """Read all offsets now.

    Args:
        settings: the configuration.
        planned: the topics that the configuration requires.
        cluster: those of them, and of retired tiers, that exist.
        positions: reads offsets from the cluster.
        now_ms: epoch ms.
        first: the start of the range; by default the log start offsets.
        end: the end of the range; by default the offset that the group has read to.
        journal: whether to use the journal if the configuration has one.

    Raises:
        OpenTransactionError: a transaction stays open.
        RangeError: the range names a partition that does not belong to a source.
        TransportError: the cluster does not answer.
    """
    topics = {topic.name: topic for topic in (*planned.topics, *planned.retired(cluster.topics))}
    own = {
        Partition(name, number): _KINDS[topic.role]
        for name, topic in topics.items()
        if name in cluster.topics and topic.role in _KINDS and (journal or topic.role is not Role.JOURNAL)
        for number in range(cluster.topics[name].partitions)
    }
    sources = [Partition(name, number) for name, facts in planned.sources.items() for number in range(facts.partitions)]
    sweeps = sweep_plan(settings)
    starts = positions.log_start_offsets([*sources, *own])
    early = positions.last_stable_offsets(own)
    marks = {name: facts.mark for name, facts in {**planned.sources, **cluster.topics}.items()}
    commits = _commits(positions, planned.group, sources, own, sweeps)
    points = {each: point for each, point in commits.items() if not is_void(point.metadata, marks[each.topic])}
    ends = _stable_ends(positions, own)
    progress, damaged = decode_progress(points)
    source_ends = positions.last_stable_offsets(sources)
    ranges = _ranges(positions, sources, starts, source_ends, progress, (first, end))
    readers = dict.fromkeys(
        [*sources, *(partition for partition, kind in own.items() if kind is Kind.READY)], planned.group
    )
    readers |= {partition: scheduler_group(planned.group) for partition, kind in own.items() if kind is Kind.TIER}
    return Snapshot(
        group=planned.group,
        taken_ms=now_ms,
        journal=journal and settings.journal,
        sources=ranges,
        marks=marks,
        created_again=frozenset(each.topic for each in commits.keys() - points.keys()),
        spans={
            kind: tuple(
                Span(partition, starts[partition], ends[partition], early[partition])
                for partition, found in own.items()
                if found is kind
            )
            for kind in Kind
        },
        progress={partition: reader_progress for partition, reader_progress in progress.items() if partition in own},
        removed=tuple(
            RemovedRange(partition, progress[partition].watermark, starts[partition], reader)
            for partition, reader in readers.items()
            if partition in progress and progress[partition].watermark < starts[partition]
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
        damaged=damaged,
    )


def _commits(
    positions: PartitionOffsets,
    group: str,
    sources: Iterable[Partition],
    own: Mapping[Partition, Kind],
    sweeps: SweepPlan,
) -> dict[Partition, Checkpoint]:
    found = positions.committed(
        group, [*sources, *(partition for partition, kind in own.items() if kind is Kind.READY)]
    )
    found |= positions.committed(
        scheduler_group(group), [partition for partition, kind in own.items() if kind is Kind.TIER]
    )
    if sweeps.moving:
        letters = [partition for partition, kind in own.items() if kind is Kind.LETTER]
        found |= positions.committed(sweeper_group(group), letters)
    return found


def _stable_ends(positions: PartitionOffsets, own: Iterable[Partition]) -> dict[Partition, int]:
    """Return the current end offsets after all transactions before them have ended."""
    ends = positions.high_watermarks(own)
    deadline = monotonic_s() + _MAX_WAIT_S
    pause = threading.Event()
    undecided = ends
    while True:
        reached = positions.last_stable_offsets(undecided)
        undecided = {partition: ends[partition] for partition, end in reached.items() if end < ends[partition]}
        if not undecided:
            return ends
        if monotonic_s() > deadline:
            partition, end = next(iter(undecided.items()))
            raise OpenTransactionError(
                f"a transaction in {partition} before offset {end} has been open for "
                f"{_MAX_WAIT_S:g} s, so its records are undecided; find its producer with "
                "`kafka-transactions.sh find-hanging`, and audit again when it has ended"
            )
        pause.wait(_POLL_S)


def _ranges(
    positions: PartitionOffsets,
    sources: list[Partition],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    progress: Mapping[Partition, ReaderProgress],
    bounds: tuple[RangeBound | None, RangeBound | None],
) -> tuple[SourceRange, ...]:
    firsts = {} if bounds[0] is None else bounds[0].of(positions, sources, ends)
    lasts = {} if bounds[1] is None else bounds[1].of(positions, sources, ends)
    found = []
    for partition in sources:
        reader_progress = progress.get(partition)
        first = max(firsts.get(partition, 0), starts[partition])
        end = min(lasts.get(partition, first if reader_progress is None else reader_progress.seen), ends[partition])
        found.append(SourceRange(partition, first, max(first, end), starts[partition], reader_progress))
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
