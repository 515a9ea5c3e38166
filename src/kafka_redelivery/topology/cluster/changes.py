"""The changes that give a cluster what a plan needs: as values, as rows of text, and as records of the control topic.

No change deletes or shrinks a topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from kafka_redelivery.topology.cluster.facts import ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.offset_check import has_expired
from kafka_redelivery.topology.cluster.plan import PlannedTopic, Role, TopologyPlan, suffices
from kafka_redelivery.topology.wire.control import (
    ControlRecord,
    first_offset_record,
    level_record,
    source_record,
    tier_record,
    width_record,
    withdrawn_former_record,
    withdrawn_records,
)
from kafka_redelivery.topology.wire.waiting import ACTION_LEVEL


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic."""

    kind: ClassVar = "create"
    topic: PlannedTopic


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Increase the number of partitions of a topic to ``partitions``."""

    kind: ClassVar = "grow"
    topic: str
    before: int
    partitions: int


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """Change one property of an internal topic."""

    kind: ClassVar = "alter"
    topic: str
    config: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class CommitFirst:
    """Commit the log start offset of a partition in which a group has never had a committed offset."""

    kind: ClassVar = "commit"
    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class MoveToLogStart:
    """Move a committed offset that was deleted, ``before``, to the log start offset of its partition.

    ``before`` is ``None`` for a committed offset that has expired: all records of the partition are processed again.
    """

    kind: ClassVar = "move"
    group: str
    topic: str
    partition: int
    before: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class ForgetTopic:
    """Withdraw from the control topic what is known of partitions that are gone, or of an older topic of that name."""

    kind: ClassVar = "forget"
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
        return chain(self.create, self.grow, self.alter, self.commit, self.move, self.forget)

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
    if not isinstance(change, CreateTopic):
        return {"change": change.kind, **asdict(change)}
    topic = change.topic
    return {
        "change": change.kind,
        "topic": topic.name,
        "partitions": topic.partitions,
        "replicationFactor": topic.replication_factor,
        "configs": dict(topic.configs),
    }


class TopicRow(NamedTuple):
    """What is to be done with a topic."""

    sign: str
    """``+`` is created, ``~`` is changed, ``=`` is in order, ``!`` is not needed any more."""

    name: str
    role: str
    text: str


def topic_rows(plan: TopologyPlan, cluster: ClusterFacts, todo: Changes) -> list[TopicRow]:
    """Return a row for each topic that the configuration needs, and for each that it does not need any more."""
    rows = []
    for topic in plan.topics:
        sign, text = _topic_row(topic, cluster.topics.get(topic.name), todo)
        rows.append(TopicRow(sign, topic.name, str(topic.role), text))
    for name in plan.retired_names(cluster.topics):
        state = "records wait in it" if name in cluster.holding else "empty"
        rows.append(TopicRow("!", name, "retired", f"no longer configured; {state}; never deleted"))
    return rows


def _topic_row(topic: PlannedTopic, actual: TopicFacts | None, todo: Changes) -> tuple[str, str]:
    if actual is None:
        return "+", whole(topic)
    parts = [f"partitions {grow.before} -> {grow.partitions}" for grow in todo.grow if grow.topic == topic.name]
    parts += [f"{each.config} {each.before} -> {each.after}" for each in todo.alter if each.topic == topic.name]
    return ("~", ", ".join(parts)) if parts else ("=", _count(actual.partitions, "partition"))


def whole(topic: PlannedTopic) -> str:
    """Return partitions, replicas and configurations of a topic that is created."""
    configs = " ".join(f"{name}={value}" for name, value in topic.configs.items())
    return f"{_count(topic.partitions, 'partition')}, {_count(topic.replication_factor, 'replica')}, {configs}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


FEATURE_LEVEL = ACTION_LEVEL
"""The highest feature level that this version supports."""


def control_records(
    plan: TopologyPlan, cluster: ClusterFacts, now_ms: int, *, raise_level: bool = False
) -> Iterator[ControlRecord]:
    """Yield what the control topic lacks.

    Args:
        plan: what the configuration needs.
        cluster: what the cluster had before first offsets were committed.
        now_ms: epoch ms.
        raise_level: whether all members of the group support the features of this version. They do in a new group.
    """
    # An empty control topic tells nothing: Strimzi made it, or an earlier apply ended before it wrote.
    known = bool(cluster.control.sources or cluster.control.committed)
    new = not known and not any(cluster.committed.values())
    if (raise_level or new) and cluster.control.level < FEATURE_LEVEL:
        yield level_record(FEATURE_LEVEL, now_ms)
    if plan.default_width is not None and cluster.control.width is None:
        yield width_record(plan.default_width, now_ms)
    yield from _sources(plan, cluster, now_ms)
    for group in cluster.committed.values():
        for (topic, number), offset in group.items():
            if (topic, number) not in cluster.control.committed:
                yield first_offset_record(topic, number, offset, now_ms, cluster.topics[topic].mark)
    if not known:
        yield from _expired(plan, cluster, now_ms)
    yield from _tiers(plan, cluster, now_ms)


def withdrawals(changes: Changes, cluster: ClusterFacts) -> Iterator[ControlRecord]:
    """Yield what withdraws what is known of older topics. Append it before topics are created.

    Of a partition that exists only that there was an older topic is withdrawn.
    """
    for change in changes.forget:
        topic, actual = change.topic, cluster.topics.get(change.topic)
        for number in change.partitions:
            if actual is None or number >= actual.partitions:
                yield from withdrawn_records(topic, number)
            else:
                yield withdrawn_former_record(topic, number)


def _sources(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    for name, source in plan.sources.items():
        if name not in cluster.control.sources:
            # A group that began before there was a control topic: a partition without an offset was added since then.
            begun = [n for topic, n in cluster.committed.get(plan.group, {}) if topic == name]
            yield source_record(name, max(begun, default=source.partitions - 1) + 1, now_ms, source.mark)


def _tiers(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    retired = cluster.control.retired
    for each in plan.topics:
        if each.role in {Role.RETRY, Role.MIXED} and retired.get(each.name, 0) is not None:
            yield tier_record(each.name, None, now_ms)
    for name in plan.retired_names(cluster.topics):
        if retired.get(name) is None:
            yield tier_record(name, now_ms, now_ms)


def _expired(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    """Yield first offsets of partitions whose committed offset may have expired before the control topic knew them."""
    unknown = replace(cluster.control, exists=False)
    for topic, group in plan.readers(cluster.topics).items():
        facts = cluster.topics.get(topic)
        if facts is None:
            continue
        for number, bounds in facts.bounds.items():
            if cluster.offset(group, topic, number) is None and has_expired(facts, number, unknown):
                yield first_offset_record(topic, number, bounds.start, now_ms)
