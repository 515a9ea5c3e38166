"""What must be done to a cluster so that it has what a plan needs. Nothing is ever deleted or made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from topology.facts import ClusterFacts, TopicFacts
from topology.plan import PlannedTopic, TopologyPlan, suffices


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A topic that is not there yet."""

    topic: PlannedTopic


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """More partitions, up to ``partitions`` in all."""

    topic: str
    before: int
    partitions: int


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """One property of one topic of ours."""

    topic: str
    config: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class CommitFirst:
    """The first offset of a group in a partition where it has none: the partition's log start.

    ``again`` tells that the partition holds records already: with no offset left to say which of them
    were read, all are read again rather than lost.
    """

    group: str
    topic: str
    partition: int
    offset: int
    again: bool = False


Change = CreateTopic | GrowTopic | AlterConfig | CommitFirst


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes, in the order in which they can be made."""

    create: tuple[CreateTopic, ...] = ()
    grow: tuple[GrowTopic, ...] = ()
    alter: tuple[AlterConfig, ...] = ()
    commit: tuple[CommitFirst, ...] = ()

    def __iter__(self) -> Iterator[Change]:
        yield from self.create
        yield from self.grow
        yield from self.alter
        yield from self.commit

    def __bool__(self) -> bool:
        return bool(self.create or self.grow or self.alter or self.commit)

    def document(self) -> list[dict[str, Any]]:
        """The changes as plain data."""
        return [change_document(change) for change in self]


def changes(plan: TopologyPlan, cluster: ClusterFacts) -> Changes:
    """What is missing in the cluster."""
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
        ]
    return Changes(tuple(create), tuple(grow), tuple(alter), tuple(commit))


def _alterations(topic: PlannedTopic, actual: TopicFacts) -> list[AlterConfig]:
    return [
        AlterConfig(topic.name, config, actual.config(config), needed)
        for config, needed in topic.configs.items()
        if not suffices(config, actual.config(config), needed)
    ]


def _first(group: str, topic: str, partition: int, actual: TopicFacts | None) -> CommitFirst:
    bounds = None if actual is None else actual.bounds.get(partition)
    if bounds is None:
        return CommitFirst(group, topic, partition, 0)
    return CommitFirst(group, topic, partition, bounds.start, again=bounds.end > bounds.start)


def change_document(change: Change) -> dict[str, Any]:
    """One change as plain data."""
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
                "readAgain": change.again,
            }
