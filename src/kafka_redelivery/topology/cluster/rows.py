"""What is to be done with each topic, as a row of text."""

from __future__ import annotations

from typing import NamedTuple

from kafka_redelivery.topology.cluster.changes import Changes
from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.plan import PlannedTopic, TopologyPlan


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
        sign, text = _topic_row(topic, todo)
        rows.append(TopicRow(sign, topic.name, str(topic.role), text))
    for name in plan.retired_names(cluster.topics):
        state = "records wait in it" if name in cluster.holding else "empty"
        rows.append(TopicRow("!", name, "retired", f"no longer configured; {state}; never deleted"))
    return rows


def _topic_row(topic: PlannedTopic, todo: Changes) -> tuple[str, str]:
    if any(create.topic == topic for create in todo.create):
        return "+", whole(topic)
    parts = [f"partitions {grow.before} -> {grow.partitions}" for grow in todo.grow if grow.topic == topic.name]
    parts += [f"{each.config} {each.before} -> {each.after}" for each in todo.alter if each.topic == topic.name]
    return ("~", ", ".join(parts)) if parts else ("=", f"{_count(topic.partitions, 'partition')}")


def whole(topic: PlannedTopic) -> str:
    """Return partitions, replicas and configurations of a topic that is created."""
    configs = " ".join(f"{name}={value}" for name, value in topic.configs.items())
    return f"{_count(topic.partitions, 'partition')}, {_count(topic.replication_factor, 'replica')}, {configs}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
