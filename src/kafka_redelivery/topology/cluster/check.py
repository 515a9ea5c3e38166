"""Checks of a cluster for faults that lose records, each with a fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from kafka_redelivery.topology.cluster.facts import (
    CLEANUP,
    MAX_MESSAGE,
    MAX_TRANSACTION,
    MIN_INSYNC,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    TIMESTAMP_TYPE,
    UNCLEAN,
    ClusterFacts,
    TopicFacts,
)
from kafka_redelivery.topology.cluster.offset_check import (
    commit_metadata,
    created_again,
    internal_offsets,
    listed_partitions,
    source_offsets,
)
from kafka_redelivery.topology.cluster.outage_check import outages
from kafka_redelivery.topology.cluster.plan import (
    HEADROOM_BYTES,
    PlannedTopic,
    Role,
    TopologyPlan,
    scheduler_group,
    suffices,
)
from kafka_redelivery.topology.durations import format_milliseconds
from kafka_redelivery.topology.faults import Severity, TopologyFault, refusal, warning

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


_COST_OF_WIDTH = (
    "with 300 partitions instead of 16 a failed record costs 2.7 times the CPU, and at 1,000 failures/s a redelivery "
    "is late by 1.3 s instead of 25 ms (median)"
)
"""Measured by ``./dev bench wide``; docs/reference/measurements.md has the table."""


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
        refusal(
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
        refusal(
            name,
            f"is the ready topic of group {other}, too",
            f"each of {plan.group} and {other} would deliver the redeliveries of both",
            "set topics.ready of one of them to another template, such as {group}.due.{topic}",
        )
        for name, other in cluster.shared.items()
    )


def _found(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    yield from check_plan(plan)
    yield from _clients(plan, cluster)
    yield from source_offsets(plan, cluster)
    yield from commit_metadata(plan, cluster)
    yield from outages(plan, cluster)
    for topic in plan.topics:
        actual = cluster.topics.get(topic.name)
        if actual is None:
            optional = _OPTIONAL.get(topic.role)
            yield _missing(topic, cluster) if optional is None else _missing_optional(topic, optional)
            continue
        yield from _partitions(plan, topic, actual)
        yield from _replication(plan, topic, actual)
        yield from properties(plan, topic, actual)
    yield from _wide(plan, cluster)
    yield from _leaderless(cluster)
    yield from check_shared(plan, cluster)
    yield from internal_offsets(plan, cluster)
    yield from created_again(cluster.control, cluster.topics)
    yield from _retired(plan, cluster)
    yield from _unconfigured(plan, cluster)
    yield from check_outputs(plan, cluster)
    yield from _scheduler(plan, cluster)


def _clients(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    if plan.consumer_protocol and cluster.consumer_protocol is False:
        yield refusal(
            plan.group,
            "these brokers do not offer the consumer protocol (Kafka 4.0)",
            "no process of the group would ever get a partition",
            "remove group.protocol from kafka, or use brokers of Kafka 4.0 or newer that offer it",
        )
    longest_ms = cluster.max_transaction_ms
    if plan.transaction_ms is not None and longest_ms is not None and longest_ms < plan.transaction_ms:
        yield refusal(
            plan.group,
            f"producer.transaction.timeout.ms is {plan.transaction_ms}, the brokers allow {longest_ms} "
            f"({MAX_TRANSACTION})",
            "no worker or scheduler can begin a transaction",
            f"under kafka, set producer.transaction.timeout.ms to {longest_ms} or less",
        )


def _missing_sources(plan: TopologyPlan) -> Iterator[TopologyFault]:
    for name in plan.missing_sources:
        yield refusal(
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
    return refusal(topic.name, _MISSING, loss, _APPLY)


def _missing_optional(topic: PlannedTopic, loss: str) -> TopologyFault:
    return warning(topic.name, _MISSING, f"no record is lost, but {loss}", _APPLY)


def _partitions(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    of_sources = max(plan.sources[name].partitions for name in topic.sources)
    if actual.partitions < topic.partitions:
        yield warning(
            topic.name,
            f"has {actual.partitions} partitions, needs {topic.partitions}",
            f"no record is lost: {_PURPOSE[topic.role]} of partition {actual.partitions} and above share partitions "
            "with those of other ones",
            _APPLY,
        )
    elif actual.partitions > of_sources and topic.role in {Role.READY, Role.DEAD_LETTER}:
        yield warning(
            topic.name,
            f"has {actual.partitions} partitions, its source {of_sources}",
            "no record is lost: the partitions beyond stay empty",
            f"give the source as many partitions, or leave it ({', '.join(topic.sources)})",
        )


def _wide(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    wide = plan.wide(cluster.topics)
    if wide:
        count, most = plan.advised_width, max(wide.values())
        held = {None: "", True: "; records wait in them", False: "; no record waits in them"}[cluster.wide_hold]
        yield warning(
            plan.group,
            f"{', '.join(wide)} have up to {most} partitions, of which {count} are enough for most groups{held}",
            f"no record is lost, but {_COST_OF_WIDTH}",
            f"narrow them (docs/operations.md#many-partitions), or keep them with topics.maxPartitions: {most}",
        )


def _replication_of_plan(plan: TopologyPlan) -> Iterator[TopologyFault]:
    for topic in plan.topics:
        source = _most_replicated(plan, topic)
        if topic.replication_factor < source.replication_factor:
            yield refusal(
                topic.name,
                f"is planned with {topic.replication_factor} replicas, its source {source.name} has "
                f"{source.replication_factor}",
                f"{_PURPOSE[topic.role]} are lost with brokers that the source survives",
                f"set topics.replicationFactor: {source.replication_factor}, or remove it",
            )
        elif topic.replication_factor < int(topic.configs[MIN_INSYNC]):
            yield refusal(
                topic.name,
                f"is planned with {topic.replication_factor} replicas, of which {topic.configs[MIN_INSYNC]} must be in "
                f"sync ({MIN_INSYNC}, as its sources)",
                "older brokers never confirm a write to it, so every failed record halts its partition",
                f"set topics.replicationFactor to {topic.configs[MIN_INSYNC]} or more, or lower {MIN_INSYNC} of the "
                "sources with kafka-configs.sh",
            )


def _most_replicated(plan: TopologyPlan, topic: PlannedTopic) -> TopicFacts:
    return max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.replication_factor)


def _replication(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    source = _most_replicated(plan, topic)
    if actual.replication_factor < source.replication_factor:
        yield refusal(
            topic.name,
            f"has replication factor {actual.replication_factor}, its source {source.name} has "
            f"{source.replication_factor}",
            f"{_PURPOSE[topic.role]} are lost with brokers that the source survives",
            f"reassign it to {source.replication_factor} replicas with kafka-reassign-partitions.sh",
        )
    elif actual.replication_factor < topic.replication_factor:
        yield warning(
            topic.name,
            f"has replication factor {actual.replication_factor}, topics.replicationFactor asks for "
            f"{topic.replication_factor}",
            "no record is lost that the source would keep",
            f"reassign it to {topic.replication_factor} replicas with kafka-reassign-partitions.sh",
        )
    in_sync = max(actual.number(MIN_INSYNC), int(topic.configs[MIN_INSYNC]))
    if in_sync > actual.replication_factor:
        yield refusal(
            topic.name,
            f"needs {in_sync} replicas in sync ({MIN_INSYNC}), but has {actual.replication_factor}",
            "older brokers never confirm a write to it, so every failed record halts its partition",
            _few_replicas(in_sync, int(topic.configs[MIN_INSYNC]), actual.replication_factor),
        )


def _few_replicas(in_sync: int, planned: int, replicas: int) -> str:
    """Return what makes a topic writable that needs more replicas in sync than it has."""
    lower = f"set {MIN_INSYNC}={planned} with kafka-configs.sh, or " if planned <= replicas else ""
    return f"{lower}reassign it to {in_sync} replicas or more with kafka-reassign-partitions.sh"


def _leaderless(cluster: ClusterFacts) -> Iterator[TopologyFault]:
    for topic in cluster.topics.values():
        if topic.leaderless:
            yield warning(
                topic.name,
                f"{listed_partitions(topic.leaderless)} {'have' if topic.leaderless[1:] else 'has'} no leader",
                "no record is lost, but nothing is read or written there, and offsets were not compared with the log",
                "start a broker that has a replica of it, then check again",
            )


def _retired(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    for topic in plan.retired(cluster.topics):
        if topic.name in cluster.holding:
            yield warning(
                topic.name,
                f"is no longer configured{_since(cluster.control.retired.get(topic.name))}, but records wait in it",
                f"they are lost if it is deleted before {scheduler_group(plan.group)} has released them",
                "keep the retired tiers and a scheduler running until all of them are empty, then delete them",
            )
            yield from keeping(topic, cluster.topics[topic.name])


def _since(retired_ms: int | None) -> str:
    return "" if retired_ms is None else f" since {datetime.fromtimestamp(retired_ms // 1000, UTC).isoformat()}"


def _unconfigured(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    for name, source in plan.unconfigured_ready_topics(cluster.topics).items():
        if not any(topic == name for topic, _ in cluster.committed.get(plan.group, {})):
            continue  # the topic of another group
        held = ", and records wait in it" if name in cluster.holding else ""
        yield warning(
            name,
            f"is the ready topic of {source}, which is not among the sources{held}",
            "no worker delivers its records; retries of the source that are due are released to it",
            f"add {source} to the sources until no retry of it waits, then delete {name}; without the topic its "
            "retries are dead-lettered",
        )


def _scheduler(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    if cluster.scheduler_runs is False:
        yield warning(
            scheduler_group(plan.group),
            "the group has no members, so no scheduler runs",
            "no record is lost, but failed records wait in the retry topics until one runs",
            "run: redelivery scheduler (two or more replace each other)",
        )


CLOCK_TOLERANCE_MS = 3_600_000
"""How wrong a worker's clock may be before Kafka refuses its records; Kafka's default for future timestamps."""


def properties(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    """Yield the faults in the properties of an existing topic."""
    if topic.role is Role.CONTROL:
        yield from _control(topic, actual)
        return
    yield from keeping(topic, actual)
    yield from _timestamps(topic, actual)
    yield from _in_sync(plan, topic, actual)
    yield from _size(plan, topic, actual)


def keeping(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    """Yield the faults that make a topic delete records before they are processed."""
    yield from _cleanup(topic, actual)
    if actual.config(CLEANUP) != "compact":  # then nothing is deleted for its age or size
        yield from _retention(topic, actual)


def _mend(topic: PlannedTopic, config: str) -> str:
    return f"run: redelivery topology apply (sets {config}={topic.configs[config]})"


def _cleanup(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    policy = actual.config(CLEANUP)
    if policy is not None and "compact" in policy:
        yield refusal(
            topic.name,
            f"is compacted ({CLEANUP}={policy})",
            "of several records with the same key, all but the last are deleted, and records without a key are refused",
            _mend(topic, CLEANUP),
        )
    else:
        yield from _other_cleanup(topic, policy, "finished records cannot be deleted and fill the disks")


def _control(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    loss = "the group forgets what it knows about its partitions, or its disks fill"
    yield from _other_cleanup(topic, actual.config(CLEANUP), loss)


def _other_cleanup(topic: PlannedTopic, policy: str | None, loss: str) -> Iterator[TopologyFault]:
    if not suffices(CLEANUP, policy, topic.configs[CLEANUP]):
        found = f"has {CLEANUP}={policy}"
        yield warning(topic.name, found, f"no record is lost, but {loss}", _mend(topic, CLEANUP))


def _retention(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    for config in (RETENTION_MS, RETENTION_BYTES):
        value, needed = actual.config(config), topic.configs[config]
        if suffices(config, value, needed):
            continue
        if topic.role is Role.DEAD_LETTER and int(needed) >= 0:
            loss = f"dead letters are deleted before they expire ({format_milliseconds(int(needed))})"
        elif topic.role is Role.DEAD_LETTER:
            loss = "dead letters that never expire are deleted"
        elif topic.role is Role.JOURNAL:
            loss = "the audit can no longer verify the outcome of older records"
        elif topic.role in {Role.JOBS, Role.ACTIONS}:
            loss = "it is forgotten which dead letters were sent again, and they are sent once more"
        else:
            loss = "records that wait longer than that are deleted before they are processed"
        yield refusal(topic.name, f"has a limited retention ({config}={value})", loss, _mend(topic, config))


def _timestamps(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    kind = actual.config(TIMESTAMP_TYPE)
    if not suffices(TIMESTAMP_TYPE, kind, topic.configs[TIMESTAMP_TYPE]):
        yield refusal(
            topic.name,
            f"has {TIMESTAMP_TYPE}={kind}",
            "the time at which a record was written is overwritten, and due times and retention depend on it",
            _mend(topic, TIMESTAMP_TYPE),
        )
    for config in (TIMESTAMP_BEFORE, TIMESTAMP_AFTER):
        limit = actual.config(config)
        if limit is not None and int(limit) < CLOCK_TOLERANCE_MS:
            wrong = format_milliseconds(int(limit))
            yield warning(
                topic.name,
                f"has {config}={limit}",
                f"no record is lost, but records wait while a clock is wrong by more than {wrong}",
                f"set {config} to {CLOCK_TOLERANCE_MS} or more with kafka-configs.sh",
            )
    if actual.config(UNCLEAN) == "true":
        yield warning(
            topic.name,
            f"has {UNCLEAN}=true",
            "confirmed records are lost when a replica that is not in sync becomes the leader",
            f"set {UNCLEAN}=false with kafka-configs.sh",
        )


def _in_sync(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    if not suffices(MIN_INSYNC, actual.config(MIN_INSYNC), topic.configs[MIN_INSYNC]):
        strictest = max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.number(MIN_INSYNC))
        yield refusal(
            topic.name,
            f"has {MIN_INSYNC}={actual.config(MIN_INSYNC)}, its source {strictest.name} {strictest.number(MIN_INSYNC)}",
            "a retry record or dead letter counts as written on fewer brokers than its source record",
            _mend(topic, MIN_INSYNC),
        )


def _size(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    if suffices(MAX_MESSAGE, actual.config(MAX_MESSAGE), topic.configs[MAX_MESSAGE]):
        return
    largest = max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.number(MAX_MESSAGE))
    smaller = actual.number(MAX_MESSAGE) < largest.number(MAX_MESSAGE)
    headroom = "" if smaller else f" and {HEADROOM_BYTES} bytes more for headers"
    yield TopologyFault(
        Severity.REFUSE if smaller else Severity.WARN,
        topic.name,
        f"takes at most {actual.number(MAX_MESSAGE)} bytes ({MAX_MESSAGE}), its source {largest.name} "
        f"{largest.number(MAX_MESSAGE)}{headroom}",
        "a record that fits into the source but not here can neither be retried nor dead-lettered",
        _mend(topic, MAX_MESSAGE),
    )
