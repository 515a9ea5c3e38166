"""The changes that give a cluster what a plan needs. No change deletes or shrinks a topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka_redelivery.topology.cluster.facts import ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.offset_check import has_expired
from kafka_redelivery.topology.cluster.plan import PlannedTopic, TopologyPlan, suffices


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic."""

    topic: PlannedTopic


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Increase the number of partitions of a topic to ``partitions``."""

    topic: str
    before: int
    partitions: int


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """Change one property of an internal topic."""

    topic: str
    config: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class CommitFirst:
    """Commit the log start offset of a partition in which a group has never had a committed offset."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class MoveToLogStart:
    """Move a committed offset that was deleted, ``before``, to the log start offset of its partition.

    ``before`` is ``None`` for a committed offset that has expired: all records of the partition are processed again.
    """

    group: str
    topic: str
    partition: int
    before: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class ForgetTopic:
    """Withdraw from the control topic what is known of partitions that are gone, or of an older topic of that name."""

    topic: str
    partitions: tuple[int, ...]


Change = CreateTopic | GrowTopic | AlterConfig | CommitFirst | MoveToLogStart | ForgetTopic


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes, in the order in which they are applied."""

    create: tuple[CreateTopic, ...] = ()
    grow: tuple[GrowTopic, ...] = ()
    alter: tuple[AlterConfig, ...] = ()
    commit: tuple[CommitFirst, ...] = ()
    move: tuple[MoveToLogStart, ...] = ()
    forget: tuple[ForgetTopic, ...] = ()

    def __iter__(self) -> Iterator[Change]:
        yield from self.create
        yield from self.grow
        yield from self.alter
        yield from self.commit
        yield from self.move
        yield from self.forget

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def document(self) -> list[dict[str, Any]]:
        """Return the changes as plain data for JSON."""
        return [change_document(change) for change in self]


def changes(
    plan: TopologyPlan, cluster: ClusterFacts, *, accept_loss: bool = False, accept_repeats: bool = False
) -> Changes:
    """Return the changes that a cluster needs.

    Args:
        plan: what the configuration needs.
        cluster: what the cluster has.
        accept_loss: whether to move committed offsets that were deleted to the log start.
        accept_repeats: whether to commit the log start where a committed offset has expired.
    """
    create: list[CreateTopic] = []
    grow: list[GrowTopic] = []
    alter: list[AlterConfig] = []
    commit: list[CommitFirst] = []
    for topic in plan.topics:
        actual = cluster.topics.get(topic.name)
        if actual is None:
            create.append(CreateTopic(topic))
            continue
        if actual.partitions < topic.partitions:
            grow.append(GrowTopic(topic.name, actual.partitions, topic.partitions))
        alter += _alterations(topic, actual)
    for topic in plan.retired(cluster.topics):
        if topic.name in cluster.holding:
            alter += _alterations(topic, cluster.topics[topic.name])
    for name, group in plan.readers(cluster.topics).items():
        planned = plan.topic(name)
        actual = cluster.topics.get(name)
        partitions = max(planned.partitions if planned else 0, actual.partitions if actual else 0)
        commit += [
            _first(group, name, partition, actual)
            for partition in range(partitions)
            if cluster.offset(group, name, partition) is None
            and not (actual and partition in actual.leaderless)
            and (name, partition) not in cluster.control.saved
            and not (actual and partition < actual.partitions and has_expired(actual, partition, cluster.control))
        ]
    moves = [move for move in _moves(plan, cluster) if (accept_repeats if move.before is None else accept_loss)]
    return Changes(
        tuple(create), tuple(grow), tuple(alter), tuple(commit), tuple(moves), tuple(_forgotten(plan, cluster))
    )


def _forgotten(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[ForgetTopic]:
    """Yield what the control topic knows of topics that are to be created, and of partitions that are gone.

    That a topic was created again is forgotten only when the group has an offset in the new one: until then, it is why
    the new one is read from its start.
    """
    known: defaultdict[str, set[int]] = defaultdict(set)
    for topic, number in {**cluster.control.committed, **cluster.control.former}:
        known[topic].add(number)
    planned = {topic.name for topic in plan.topics}
    for topic, numbers in sorted(known.items()):
        actual = cluster.topics.get(topic)
        if actual is None:
            gone = numbers if topic in planned else set()  # what this configuration does not need may be hidden
        else:
            seen = cluster.control.former.keys() & cluster.control.committed.keys()
            gone = {each for each in numbers if each >= actual.partitions or (topic, each) in seen}
        if gone:
            yield ForgetTopic(topic, tuple(sorted(gone)))


def _moves(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[MoveToLogStart]:
    readers = dict.fromkeys(plan.sources, plan.group) | plan.readers(cluster.topics)
    for topic, group in readers.items():
        actual = cluster.topics.get(topic)
        for partition, bounds in sorted(actual.bounds.items()) if actual else ():
            offset = cluster.offset(group, topic, partition)
            source = topic in plan.sources
            if (
                has_expired(cluster.topics[topic], partition, cluster.control, source=source)
                if offset is None
                else offset < bounds.start
            ):
                yield MoveToLogStart(group, topic, partition, offset, bounds.start)


def _alterations(topic: PlannedTopic, actual: TopicFacts) -> list[AlterConfig]:
    return [
        AlterConfig(topic.name, config, actual.config(config), needed)
        for config, needed in topic.configs.items()
        if not suffices(config, actual.config(config), needed)
    ]


def _first(group: str, topic: str, partition: int, actual: TopicFacts | None) -> CommitFirst:
    bounds = None if actual is None else actual.bounds.get(partition)
    return CommitFirst(group, topic, partition, 0 if bounds is None else bounds.start)


def change_document(change: Change) -> dict[str, Any]:
    """Return one change as plain data for JSON."""
    match change:
        case CreateTopic(topic):
            return {
                "change": "create",
                "topic": topic.name,
                "partitions": topic.partitions,
                "replicationFactor": topic.replication_factor,
                "configs": dict(topic.configs),
            }
        case GrowTopic():
            return {"change": "grow", "topic": change.topic, "before": change.before, "partitions": change.partitions}
        case AlterConfig():
            return {
                "change": "alter",
                "topic": change.topic,
                "config": change.config,
                "before": change.before,
                "after": change.after,
            }
        case CommitFirst():
            return {
                "change": "commit",
                "group": change.group,
                "topic": change.topic,
                "partition": change.partition,
                "offset": change.offset,
            }
        case ForgetTopic():
            return {"change": "forget", "topic": change.topic, "partitions": list(change.partitions)}
        case MoveToLogStart():
            return {
                "change": "move",
                "group": change.group,
                "topic": change.topic,
                "partition": change.partition,
                "before": change.before,
                "offset": change.offset,
            }
