"""A small group and a cluster that is as its plan wants it, for tests of plan, changes and check."""

from collections.abc import Mapping
from dataclasses import replace

from kafka_redelivery.topology.cluster.facts import Bounds, ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.plan import TopologyPlan, plan
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings

BASE = 'group: billing\nkafka: {bootstrap.servers: "x"}\n'
ONE_SOURCE = BASE + "sources: [{topic: orders}]\n"
TWO_SOURCES = BASE + "sources: [{topic: orders}, {topic: bills}]\n"


def settings(text: str = ONE_SOURCE) -> Settings:
    """The settings of a file."""
    return load_settings(text)


def source(name: str = "orders", partitions: int = 4, replicas: int = 3, **configs: str) -> TopicFacts:
    """A source topic; names of properties with ``_`` for a dot."""
    return TopicFacts(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        configs={key.replace("_", "."): value for key, value in configs.items()},
        bounds={partition: Bounds(0, 10) for partition in range(partitions)},
    )


def planned(text: str = ONE_SOURCE, *sources: TopicFacts, default_width: int | None = None) -> TopologyPlan:
    """The plan of a file over these sources, one default source if there are none."""
    known = sources or (source(),)
    return plan(settings(text), {each.name: each for each in known}, default_width)


def as_planned(wanted: TopologyPlan) -> ClusterFacts:
    """A cluster in which nothing is missing."""
    topics = {
        topic.name: TopicFacts(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=topic.configs,
            bounds={partition: Bounds(5, 10) for partition in range(topic.partitions)},
        )
        for topic in wanted.topics
    }
    committed: dict[str, dict[tuple[str, int], int]] = {}
    for name, group in wanted.readers(topics).items():
        committed.setdefault(group, {}).update({(name, number): 7 for number in range(topics[name].partitions)})
    return ClusterFacts(topics={**topics, **wanted.sources}, committed=committed)


def with_topic(cluster: ClusterFacts, name: str, **changed: object) -> ClusterFacts:
    """The cluster with one topic changed."""
    return replace(cluster, topics={**cluster.topics, name: replace(cluster.topics[name], **changed)})  # type: ignore[arg-type]


def with_config(cluster: ClusterFacts, name: str, config: str, value: str) -> ClusterFacts:
    """The cluster with one property of one topic changed."""
    return with_topic(cluster, name, configs={**cluster.topics[name].configs, config: value})


def without_topic(cluster: ClusterFacts, name: str) -> ClusterFacts:
    """The cluster without a topic."""
    return replace(cluster, topics={each: facts for each, facts in cluster.topics.items() if each != name})


def with_offsets(cluster: ClusterFacts, group: str, changed: Mapping[tuple[str, int], int | None]) -> ClusterFacts:
    """The cluster with some committed offsets changed; ``None`` takes one away."""
    offsets = dict(cluster.committed.get(group, {}))
    for place, offset in changed.items():
        offsets.pop(place, None)
        if offset is not None:
            offsets[place] = offset
    return replace(cluster, committed={**cluster.committed, group: offsets})
