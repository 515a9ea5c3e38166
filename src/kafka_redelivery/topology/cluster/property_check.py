"""Checks of the properties of internal topics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafka_redelivery.topology.cluster.facts import (
    CLEANUP,
    MAX_MESSAGE,
    MIN_INSYNC,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    TIMESTAMP_TYPE,
    UNCLEAN,
    TopicFacts,
)
from kafka_redelivery.topology.cluster.plan import HEADROOM_BYTES, PlannedTopic, Role, TopologyPlan, suffices
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.topology.faults import Severity, TopologyFault

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
    yield from _retention(topic, actual)


def _mend(topic: PlannedTopic, config: str) -> str:
    return f"run: redelivery topology apply (sets {config}={topic.configs[config]})"


def _cleanup(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    policy = actual.config(CLEANUP)
    if policy is not None and "compact" in policy:
        yield TopologyFault(
            Severity.REFUSE,
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
        yield TopologyFault(Severity.WARN, topic.name, found, f"no record is lost, but {loss}", _mend(topic, CLEANUP))


def _retention(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    for config in (RETENTION_MS, RETENTION_BYTES):
        value, needed = actual.config(config), topic.configs[config]
        if suffices(config, value, needed):
            continue
        if topic.role is Role.DEAD_LETTER and int(needed) >= 0:
            loss = f"dead letters are deleted before they expire ({_as_text(int(needed))})"
        elif topic.role is Role.DEAD_LETTER:
            loss = "dead letters that never expire are deleted"
        elif topic.role is Role.JOURNAL:
            loss = "the audit can no longer verify the outcome of older records"
        elif topic.role in {Role.JOBS, Role.ACTIONS}:
            loss = "it is forgotten which dead letters were sent again, and they are sent once more"
        else:
            loss = "records that wait longer than that are deleted before they are processed"
        yield TopologyFault(
            Severity.REFUSE, topic.name, f"has a limited retention ({config}={value})", loss, _mend(topic, config)
        )


def _timestamps(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    kind = actual.config(TIMESTAMP_TYPE)
    if not suffices(TIMESTAMP_TYPE, kind, topic.configs[TIMESTAMP_TYPE]):
        yield TopologyFault(
            Severity.REFUSE,
            topic.name,
            f"has {TIMESTAMP_TYPE}={kind}",
            "the time at which a record was written is overwritten, and due times and retention depend on it",
            _mend(topic, TIMESTAMP_TYPE),
        )
    for config in (TIMESTAMP_BEFORE, TIMESTAMP_AFTER):
        limit = actual.config(config)
        if limit is not None and int(limit) < CLOCK_TOLERANCE_MS:
            yield TopologyFault(
                Severity.WARN,
                topic.name,
                f"has {config}={limit}",
                f"no record is lost, but records wait while a clock is wrong by more than {_as_text(int(limit))}",
                f"set {config} to {CLOCK_TOLERANCE_MS} or more with kafka-configs.sh",
            )
    if actual.config(UNCLEAN) == "true":
        yield TopologyFault(
            Severity.WARN,
            topic.name,
            f"has {UNCLEAN}=true",
            "confirmed records are lost when a replica that is not in sync becomes the leader",
            f"set {UNCLEAN}=false with kafka-configs.sh",
        )


def _in_sync(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    if not suffices(MIN_INSYNC, actual.config(MIN_INSYNC), topic.configs[MIN_INSYNC]):
        strictest = max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.number(MIN_INSYNC))
        yield TopologyFault(
            Severity.REFUSE,
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


def _as_text(milliseconds: int) -> str:
    return format_duration(timedelta(milliseconds=milliseconds))
