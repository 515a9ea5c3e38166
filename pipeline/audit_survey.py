"""Where everything stood when an audit began, taken in an order in which a running group causes no false alarm.

A record moves on in one transaction: the offset behind it and its successor become visible together. So what must be
looked at first is what says that a record has been read, and last what says that its successor is there:

1. the first offsets that are kept,
2. the ends, to know later what was written after them,
3. what the groups have committed,
4. the ends again, open transactions included; then it is waited until all of these have been ended.

Whatever is read by 3 has its successor before 4. The other way round a record that moves on after 3 is seen twice; its
successor then lies behind 2, which is how such a pair is told from a doubled record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from consumers.clock import monotonic_s
from pipeline.audit_range import Edge
from pipeline.audit_snapshot import Kind, Removed, Snapshot, SourceRange, Span
from pipeline.errors import PipelineError
from pipeline.progress_frames import Standing, standings_of
from topology.facts import CLEANUP, RETENTION_MS, ClusterFacts
from topology.plan import Role, TopologyPlan, scheduler_group
from topology.progress import Checkpoint
from topology.settings import Settings
from topology.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from transport.positions import Positions
from transport.protocols import Partition

_SETTLED_S: Final = 60.0
"""Longer than any transaction of ours may stay open: its time-out of 30 s, and the broker's look every 10 s."""

_LOOK_S: Final = 0.05


class UnsettledError(PipelineError):
    """Somebody's transaction stays open. Raised after a minute; the message names the partition."""


_KINDS: Final = {
    Role.RETRY: Kind.TIER,
    Role.MIXED: Kind.TIER,
    Role.READY: Kind.READY,
    Role.DEAD_LETTER: Kind.LETTER,
    Role.JOURNAL: Kind.JOURNAL,
}


def take(
    settings: Settings,
    planned: TopologyPlan,
    cluster: ClusterFacts,
    positions: Positions,
    now_ms: int,
    first: Edge | None = None,
    end: Edge | None = None,
    *,
    journal: bool = True,
) -> Snapshot:
    """Take all positions now.

    Args:
        settings: the configuration.
        planned: the topics it needs.
        cluster: the topics there are.
        positions: asks the cluster.
        now_ms: epoch ms.
        first: where the range begins, by default at the first records that are kept.
        end: where it ends, by default where the group has read to.
        journal: whether the journal is used, where the configuration has one.

    Raises:
        UnsettledError: a transaction stays open.
        EdgeError: the range names a partition that is not a source's.
        TransportError: the cluster cannot be asked.
    """
    topics = {topic.name: topic for topic in (*planned.topics, *planned.retired(cluster.topics))}
    ours = {
        Partition(name, number): _KINDS[topic.role]
        for name, topic in topics.items()
        if name in cluster.topics and (journal or topic.role is not Role.JOURNAL)
        for number in range(cluster.topics[name].partitions)
    }
    sources = [Partition(name, number) for name, facts in planned.sources.items() for number in range(facts.partitions)]
    sweeps = sweep_plan(settings)
    starts = positions.starts([*sources, *ours])
    early = positions.ends(ours)
    points = _commits(positions, planned.group, sources, ours, sweeps)
    ends = _settled(positions, ours)
    standings, damaged = standings_of(points)
    source_ends = positions.ends(sources)
    ranges = _ranges(positions, sources, starts, source_ends, standings, (first, end))
    readers = dict.fromkeys([*sources, *(place for place, kind in ours.items() if kind is Kind.READY)], planned.group)
    readers |= {place: scheduler_group(planned.group) for place, kind in ours.items() if kind is Kind.TIER}
    return Snapshot(
        group=planned.group,
        taken_ms=now_ms,
        journal=journal and settings.journal,
        sources=ranges,
        spans={
            kind: tuple(
                Span(place, starts[place], ends[place], early[place]) for place, own in ours.items() if own is kind
            )
            for kind in Kind
        },
        standings={place: standing for place, standing in standings.items() if place in ours},
        removed=tuple(
            Removed(place, standings[place].watermark, starts[place], reader)
            for place, reader in readers.items()
            if place in standings and standings[place].watermark < starts[place]
        ),
        horizon_ms=now_ms - settings.topics.audit_horizon // timedelta(milliseconds=1),
        lives=_lives(settings, planned, cluster),
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
    positions: Positions, group: str, sources: Iterable[Partition], ours: Mapping[Partition, Kind], sweeps: SweepPlan
) -> dict[Partition, Checkpoint]:
    found = positions.committed(group, [*sources, *(place for place, kind in ours.items() if kind is Kind.READY)])
    found |= positions.committed(scheduler_group(group), [place for place, kind in ours.items() if kind is Kind.TIER])
    if sweeps.moving:
        letters = [place for place, kind in ours.items() if kind is Kind.LETTER]
        found |= positions.committed(sweeper_group(group), letters)
    return found


def _settled(positions: Positions, ours: Iterable[Partition]) -> dict[Partition, int]:
    """The ends of now, when nothing before them is undecided any more."""
    ends = positions.last(ours)
    deadline = monotonic_s() + _SETTLED_S
    pause = threading.Event()
    open_ones = ends
    while True:
        reached = positions.ends(open_ones)
        open_ones = {place: ends[place] for place, end in reached.items() if end < ends[place]}
        if not open_ones:
            return ends
        if monotonic_s() > deadline:
            place, end = next(iter(open_ones.items()))
            raise UnsettledError(
                f"a transaction in {place.topic}-{place.number} before offset {end} has been open for "
                f"{_SETTLED_S:g} s, so that nobody can tell what will be there; find its producer with "
                "`kafka-transactions.sh find-hanging`, and audit again when it has ended"
            )
        pause.wait(_LOOK_S)


def _ranges(
    positions: Positions,
    sources: list[Partition],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    standings: Mapping[Partition, Standing],
    edges: tuple[Edge | None, Edge | None],
) -> tuple[SourceRange, ...]:
    firsts = {} if edges[0] is None else edges[0].of(positions, sources, ends)
    lasts = {} if edges[1] is None else edges[1].of(positions, sources, ends)
    found = []
    for place in sources:
        standing = standings.get(place)
        first = max(firsts.get(place, 0), starts[place])
        end = min(lasts.get(place, first if standing is None else standing.seen), ends[place])
        found.append(SourceRange(place, first, max(first, end), starts[place], standing))
    return tuple(found)


def _lives(settings: Settings, planned: TopologyPlan, cluster: ClusterFacts) -> dict[str, int]:
    """After how long a dead letter may be gone: it has expired, or its topic keeps it no longer."""
    lives = {}
    for source, entry in settings.entries().items():
        strategy = entry.dead_letter_strategy
        letters = [
            cluster.topics[topic.name]
            for topic in planned.topics
            if topic.role is Role.DEAD_LETTER and source in topic.sources and topic.name in cluster.topics
        ]
        limits = [strategy.expiration, *(int(topic.configs.get(RETENTION_MS, "-1")) for topic in letters)]
        lives[source] = min((limit for limit in limits if limit > 0), default=0)
    return lives
