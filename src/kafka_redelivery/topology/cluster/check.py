"""Checks of a cluster for faults that lose records, each with a fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from kafka_redelivery.topology.cluster.facts import MIN_INSYNC, ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.offset_check import (
    commit_metadata,
    created_again,
    internal_offsets,
    listed_partitions,
    source_offsets,
)
from kafka_redelivery.topology.cluster.plan import PlannedTopic, Role, TopologyPlan, scheduler_group
from kafka_redelivery.topology.cluster.property_check import keeping, properties
from kafka_redelivery.topology.faults import Severity, TopologyFault

__all__ = ["Severity", "TopologyFault", "check", "check_outputs", "check_plan", "check_shared"]

_MISSING = "does not exist, or may not be described"
_APPLY = "run: redelivery topology apply"
_PURPOSE: Mapping[Role, str] = {
    Role.RETRY: "records that wait for their redelivery",
    Role.MIXED: "records that wait for their redelivery",
    Role.READY: "records that are due again",
    Role.DEAD_LETTER: "dead letters",
    Role.JOURNAL: "the outcomes of the records",
    Role.CONTROL: "what the group knows about its partitions",
    Role.JOBS: "the jobs that send dead letters again",
    Role.ACTIONS: "what became of dead letters that are sent again",
    Role.PARKING: "dead letters that were sent again too often",
}

_NO_REDRIVE = "`redelivery dlq` cannot send dead letters again"
_OPTIONAL: Mapping[Role, str] = {
    Role.CONTROL: "with auto.offset.reset=latest, a partition that is added to a source starts at its end, and it is "
    "unknown whether a missing committed offset has expired",
    Role.JOBS: _NO_REDRIVE,
    Role.ACTIONS: _NO_REDRIVE,
    Role.PARKING: _NO_REDRIVE,
}
"""What is missed without a topic that workers and schedulers need not have."""


def check(plan: TopologyPlan, cluster: ClusterFacts) -> tuple[TopologyFault, ...]:
    """Return all faults of a cluster, those of severity ``refuse`` first.

    The topics of a cluster without a fault of severity ``refuse`` lose no record.
    """
    faults = list(_found(plan, cluster))
    return tuple(sorted(faults, key=lambda fault: fault.severity is not Severity.REFUSE))


def check_plan(plan: TopologyPlan) -> tuple[TopologyFault, ...]:
    """Return the faults of the plan itself, which no change of the internal topics can fix."""
    return (*_missing_sources(plan), *_replication_of_plan(plan), *plan.warnings)


def check_outputs(plan: TopologyPlan, cluster: ClusterFacts) -> tuple[TopologyFault, ...]:
    """Return a fault for each output topic that does not exist; this project does not create them."""
    return tuple(
        TopologyFault(
            Severity.REFUSE,
            name,
            f"the output topic {_MISSING}",
            "no record whose handler emits to it can be committed",
            f"create {name} (no command of redelivery creates outputs) and grant Describe and Write, or remove it from "
            "outputs",
        )
        for name in plan.outputs
        if name not in cluster.topics and name not in plan.sources
    )


def check_shared(plan: TopologyPlan, cluster: ClusterFacts) -> tuple[TopologyFault, ...]:
    """Return a fault for each ready topic that another group has, too."""
    return tuple(
        TopologyFault(
            Severity.REFUSE,
            name,
            f"is the ready topic of group {other}, too",
            f"each of {plan.group} and {other} would deliver the redeliveries of both",
            "set topics.ready of one of them to another template, such as {group}.due.{topic}",
        )
        for name, other in cluster.shared.items()
    )


def _found(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    yield from check_plan(plan)
    yield from source_offsets(plan, cluster)
    yield from commit_metadata(plan, cluster)
    for topic in plan.topics:
        actual = cluster.topics.get(topic.name)
        if actual is None:
            optional = _OPTIONAL.get(topic.role)
            yield _missing(topic, cluster) if optional is None else _missing_optional(topic, optional)
            continue
        yield from _partitions(plan, topic, actual)
        yield from _replication(plan, topic, actual)
        yield from properties(plan, topic, actual)
    yield from _leaderless(cluster)
    yield from check_shared(plan, cluster)
    yield from internal_offsets(plan, cluster)
    yield from created_again(cluster.control, cluster.topics)
    yield from _retired(plan, cluster)
    yield from _unconfigured(plan, cluster)
    yield from check_outputs(plan, cluster)
    yield from _scheduler(plan, cluster)


def _missing_sources(plan: TopologyPlan) -> Iterator[TopologyFault]:
    for name in plan.missing_sources:
        yield TopologyFault(
            Severity.REFUSE,
            name,
            f"the source topic {_MISSING}",
            "there are no records to read, and the number of partitions of the other topics is unknown",
            f"create {name} (no command of redelivery creates sources), correct its name under sources, or grant the "
            "right Read on it (`redelivery topology acls` prints the command)",
        )


def _missing(topic: PlannedTopic, cluster: ClusterFacts) -> TopologyFault:
    loss = f"{_PURPOSE[topic.role]} have nowhere to go"
    if cluster.creates_topics:
        loss += "; the brokers create it when it is written to, with one partition and a retention that deletes"
    return TopologyFault(Severity.REFUSE, topic.name, _MISSING, loss, _APPLY)


def _missing_optional(topic: PlannedTopic, loss: str) -> TopologyFault:
    return TopologyFault(Severity.WARN, topic.name, _MISSING, f"no record is lost, but {loss}", _APPLY)


def _partitions(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    of_sources = max(plan.sources[name].partitions for name in topic.sources)
    if actual.partitions < topic.partitions:
        yield TopologyFault(
            Severity.WARN,
            topic.name,
            f"has {actual.partitions} partitions, needs {topic.partitions}",
            f"no record is lost: {_PURPOSE[topic.role]} of partition {actual.partitions} and above share partitions "
            "with those of other ones",
            _APPLY,
        )
    elif actual.partitions > of_sources and topic.role in {Role.READY, Role.DEAD_LETTER}:
        yield TopologyFault(
            Severity.WARN,
            topic.name,
            f"has {actual.partitions} partitions, its source {of_sources}",
            "no record is lost: the partitions beyond stay empty",
            f"give the source as many partitions, or leave it ({', '.join(topic.sources)})",
        )


def _replication_of_plan(plan: TopologyPlan) -> Iterator[TopologyFault]:
    for topic in plan.topics:
        source = _most_replicated(plan, topic)
        if topic.replication_factor < source.replication_factor:
            yield TopologyFault(
                Severity.REFUSE,
                topic.name,
                f"is planned with {topic.replication_factor} replicas, its source {source.name} has "
                f"{source.replication_factor}",
                f"{_PURPOSE[topic.role]} are lost with brokers that the source survives",
                f"set topics.replicationFactor: {source.replication_factor}, or remove it",
            )
        elif topic.replication_factor < int(topic.configs[MIN_INSYNC]):
            yield TopologyFault(
                Severity.REFUSE,
                topic.name,
                f"is planned with {topic.replication_factor} replicas, of which {topic.configs[MIN_INSYNC]} must be in "
                f"sync ({MIN_INSYNC}, as its sources)",
                "no write to it can ever be confirmed, so every failed record halts its partition",
                f"set topics.replicationFactor to {topic.configs[MIN_INSYNC]} or more",
            )


def _most_replicated(plan: TopologyPlan, topic: PlannedTopic) -> TopicFacts:
    return max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.replication_factor)


def _replication(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    source = _most_replicated(plan, topic)
    if actual.replication_factor < source.replication_factor:
        yield TopologyFault(
            Severity.REFUSE,
            topic.name,
            f"has replication factor {actual.replication_factor}, its source {source.name} has "
            f"{source.replication_factor}",
            f"{_PURPOSE[topic.role]} are lost with brokers that the source survives",
            f"reassign it to {source.replication_factor} replicas with kafka-reassign-partitions.sh",
        )
    elif actual.replication_factor < topic.replication_factor:
        yield TopologyFault(
            Severity.WARN,
            topic.name,
            f"has replication factor {actual.replication_factor}, topics.replicationFactor asks for "
            f"{topic.replication_factor}",
            "no record is lost that the source would keep",
            f"reassign it to {topic.replication_factor} replicas with kafka-reassign-partitions.sh",
        )
    in_sync = max(actual.number(MIN_INSYNC), int(topic.configs[MIN_INSYNC]))
    if in_sync > actual.replication_factor:
        yield TopologyFault(
            Severity.REFUSE,
            topic.name,
            f"needs {in_sync} replicas in sync ({MIN_INSYNC}), but has {actual.replication_factor}",
            "no write to it can ever be confirmed, so every failed record halts its partition",
            f"reassign it to {in_sync} replicas or more with kafka-reassign-partitions.sh",
        )


def _leaderless(cluster: ClusterFacts) -> Iterator[TopologyFault]:
    for topic in cluster.topics.values():
        if topic.leaderless:
            yield TopologyFault(
                Severity.WARN,
                topic.name,
                f"{listed_partitions(topic.leaderless)} {'have' if topic.leaderless[1:] else 'has'} no leader",
                "no record is lost, but nothing is read or written there, and offsets were not compared with the log",
                "start a broker that has a replica of it, then check again",
            )


def _retired(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    for topic in plan.retired(cluster.topics):
        if topic.name in cluster.holding:
            yield TopologyFault(
                Severity.WARN,
                topic.name,
                f"is no longer configured{_since(cluster.control.retired.get(topic.name))}, but records wait in it",
                f"they are lost if it is deleted before {scheduler_group(plan.group)} has released them",
                "keep it and a scheduler running until it is empty, then it may be deleted",
            )
            yield from keeping(topic, cluster.topics[topic.name])


def _since(retired_ms: int | None) -> str:
    return "" if retired_ms is None else f" since {datetime.fromtimestamp(retired_ms // 1000, UTC).isoformat()}"


def _unconfigured(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    for name, source in plan.unconfigured_ready_topics(cluster.topics).items():
        if not any(topic == name for topic, _ in cluster.committed.get(plan.group, {})):
            continue  # the topic of another group
        held = ", and records wait in it" if name in cluster.holding else ""
        yield TopologyFault(
            Severity.WARN,
            name,
            f"is the ready topic of {source}, which is not among the sources{held}",
            "no worker delivers its records; retries of the source that are due are released to it",
            f"add {source} to the sources until no retry of it waits, then delete {name}; without the topic its "
            "retries are dead-lettered",
        )


def _scheduler(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    if cluster.scheduler_runs is False:
        yield TopologyFault(
            Severity.WARN,
            scheduler_group(plan.group),
            "the group has no members, so no scheduler runs",
            "no record is lost, but failed records wait in the retry topics until one runs",
            "run: redelivery scheduler (two or more replace each other)",
        )
