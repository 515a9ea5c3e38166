"""One sweep over a group's dead-letter topics on request, for `redelivery sweep`, or a preview of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason, SweepCursor
from kafka_redelivery.consumers.dead_letters.sweeper import Sweeper
from kafka_redelivery.consumers.dead_letters.sweeper_thread import open_dependencies
from kafka_redelivery.consumers.dead_letters.swept_topics import SweptTopics
from kafka_redelivery.consumers.errors import SweepError
from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.telemetry.observers import NoOpSweeperObserver
from kafka_redelivery.topology.cluster.facts import Bounds, ClusterFacts
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.client_config import SMALL_PREFETCH
from kafka_redelivery.transport.clients.assigned_reader import AssignedReader
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition

Progress = Callable[[int, int], None]
"""Receives the number of offsets that were read, and of all offsets."""

_BATCH = 1000
_POLL_S = 0.5

END = "end"
"""The partition was read to its end: it was empty, or everything in it had expired."""

TAKEN_OVER = "taken_over"
"""A scheduler started meanwhile and sweeps the partition now."""

UNFINISHED = "unfinished"
"""The sweep was ended early."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The result of a sweep for one partition."""

    number: int
    removed: int
    """Expired dead letters that were removed, or would be."""

    moved: int
    """Those of them that were written to their expiry topic, or would be."""

    because: str
    """Why the sweep stopped: a :class:`PauseReason`, :data:`END`, :data:`TAKEN_OVER` or :data:`UNFINISHED`."""

    offset: int | None = None
    """The first record that stays, ``None`` if the sweep did not stop at a record."""

    expires_ms: int = 0
    """The expiration of that record (epoch ms), 0 = never."""

    problem: str = ""
    """Kafka's reason if it refused something."""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The result of a sweep for one dead-letter topic; ``problem`` says why the topic could not be read."""

    name: str
    partitions: tuple[PartitionResult, ...] = ()
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing was refused or left unfinished."""
        failed = {PauseReason.REFUSED, UNFINISHED}
        return not self.problem and all(each.because not in failed for each in self.partitions)


def sweep(settings: Settings, ended: Event, progress: Progress) -> list[TopicResult]:
    """Remove expired dead letters from the start of each partition, and move those that have an expiry topic.

    Dead letters expire by their own headers, so the configuration needs no expiration.

    Args:
        settings: the configuration.
        ended: ends the sweep early.
        progress: called after each turn.

    Raises:
        SweepError: schedulers of the group sweep already, or the topics cannot be read.
        TransportError: Kafka does not answer or denies access.
    """
    plan = sweep_plan(settings)
    facts = _facts(settings, plan)
    group = sweeper_group(settings.group)
    members = GroupMembers(settings.kafka).count(group)
    if members:
        raise SweepError(
            f"schedulers sweep these topics already (members of group {group}: {members}); let them do it, or stop "
            "them and wait until their sessions end; --dry-run works meanwhile"
        )
    meter = _Meter(facts, progress)
    try:
        dependencies = open_dependencies(settings, plan, Instance.random(), NoOpSweeperObserver(), SMALL_PREFETCH)
        sweeper = Sweeper(plan, dependencies, _BATCH)
        cursors = sweeper.sweep_once(ended, meter.update)
    except ReaderError as error:
        raise SweepError(str(error)) from error
    removed, moved = sweeper.reporter.total_removed, sweeper.reporter.total_moved
    return [
        TopicResult(name, problem=sweeper.forbidden[name])
        if name in sweeper.forbidden
        else _topic_result(name, facts, cursors, removed, moved, stopped=ended.is_set())
        for name in plan.topics
    ]


def preview(settings: Settings, ended: Event, progress: Progress, clock: Clock = wall_clock_ms) -> list[TopicResult]:
    """Return what :func:`sweep` would do by this machine's clock. Joins no group and changes nothing.

    Args:
        settings: the configuration.
        ended: ends the preview early.
        progress: called after each turn.
        clock: epoch ms.

    Raises:
        SweepError: the topics cannot be read.
        TransportError: Kafka does not answer or denies access.
    """
    plan = sweep_plan(settings)
    offsets = PartitionOffsets(settings.kafka)
    swept = SweptTopics(offsets.calls)
    swept.begin(Partition(topic, 0) for topic in plan.topics)
    facts = _facts(settings, plan)
    group = sweeper_group(settings.group)
    cursors = {partition: SweepCursor(plan.group, bounds.start, 0) for partition, bounds in _bounds(facts).items()}
    committed = offsets.committed(group, cursors)
    moved_to = {partition: swept.moved_to(partition, committed.get(partition)) or 0 for partition in cursors}
    moved: Counter[Partition] = Counter()
    meter = _Meter(facts, progress)
    reader = AssignedReader(settings.kafka, group)
    try:
        while not ended.is_set():
            positions = {
                partition: cursor.next_offset
                for partition, cursor in cursors.items()
                if _is_unfinished(cursor, reader, partition, facts)
            }
            if not positions:
                break
            reader.assign(positions)
            for message in reader.fetch(_BATCH, _POLL_S):
                partition = Partition(message.topic(), message.partition())
                fate = cursors[partition].advance(message, clock())
                if fate is not None and message.offset() >= moved_to[partition]:
                    moved[partition] += plan.expiry_topic(partition.topic, fate.source) is not None
            meter.update(cursors)
    except ReaderError as error:
        raise SweepError(str(error)) from error
    finally:
        reader.close()
    expired = Counter({partition: cursor.expired for partition, cursor in cursors.items()})
    return [_topic_result(name, facts, cursors, expired, moved, stopped=ended.is_set()) for name in plan.topics]


def _is_unfinished(cursor: SweepCursor, reader: AssignedReader, partition: Partition, facts: ClusterFacts) -> bool:
    end = facts.topics[partition.topic].bounds[partition.number].end  # records that arrive later are not previewed
    return cursor.pause_reason is None and cursor.next_offset < end and reader.lag(partition, end) > 0


def _facts(settings: Settings, plan: SweepPlan) -> ClusterFacts:
    return ClusterAdmin(settings.kafka).describe(plan.topics, dict.fromkeys(plan.topics, ()))


def _bounds(facts: ClusterFacts) -> dict[Partition, Bounds]:
    return {
        Partition(name, number): bounds
        for name, topic in facts.topics.items()
        for number, bounds in topic.bounds.items()
    }


class _Meter:
    """Measures the progress of a sweep in offsets."""

    def __init__(self, facts: ClusterFacts, progress: Progress) -> None:
        self._bounds = _bounds(facts)
        self._progress = progress
        self._total = sum(bounds.end - bounds.start for bounds in self._bounds.values())

    def update(self, cursors: Mapping[Partition, SweepCursor]) -> None:
        """Report the progress; a paused partition counts as read."""
        done = 0
        for partition, bounds in self._bounds.items():
            cursor = cursors.get(partition)
            if cursor is None:
                reached = bounds.start
            else:
                reached = bounds.end if cursor.pause_reason is not None else cursor.next_offset
            done += min(reached, bounds.end) - bounds.start
        self._progress(done, self._total)


def _topic_result(
    name: str,
    facts: ClusterFacts,
    cursors: Mapping[Partition, SweepCursor],
    removed: Mapping[Partition, int],
    moved: Mapping[Partition, int],
    *,
    stopped: bool,
) -> TopicResult:
    if name not in facts.topics:
        return TopicResult(name, problem="there is no such topic; see `redelivery topology check`")
    partitions = [Partition(name, number) for number in range(facts.topics[name].partitions)]
    return TopicResult(
        name, tuple(_partition_result(partition, cursors, removed, moved, stopped=stopped) for partition in partitions)
    )


def _partition_result(
    partition: Partition,
    cursors: Mapping[Partition, SweepCursor],
    removed: Mapping[Partition, int],
    moved: Mapping[Partition, int],
    *,
    stopped: bool,
) -> PartitionResult:
    cursor = cursors.get(partition)
    numbers = (partition.number, removed.get(partition, 0), moved.get(partition, 0))
    if cursor is None:
        return PartitionResult(*numbers, because=UNFINISHED if stopped else TAKEN_OVER)
    if cursor.pause_reason is None:
        return PartitionResult(*numbers, because=UNFINISHED if stopped else END)
    problem = cursor.problem if cursor.pause_reason is PauseReason.REFUSED else ""
    return PartitionResult(*numbers, str(cursor.pause_reason), cursor.next_offset, cursor.expires_ms, problem)
