"""Which properties of our topics would lose records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from topology.durations import format_duration
from topology.facts import (
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
from topology.plan import HEADROOM_BYTES, PlannedTopic, Role, TopologyPlan, suffices
from topology.topology_fault import Severity, TopologyFault

CLOCK_TOLERANCE_MS = 3_600_000
"""How wrong a worker's clock may be before its copies are refused; Kafka's own default for the future."""


def properties(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    """The properties of one topic that exists."""
    yield from keeping(topic, actual)
    yield from _timestamps(topic, actual)
    yield from _in_sync(plan, topic, actual)
    yield from _size(plan, topic, actual)


def keeping(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    """Whether the topic keeps what nobody has processed yet."""
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
            "of several records with one key all but the last are deleted, and one without a key is refused",
            _mend(topic, CLEANUP),
        )
    elif not suffices(CLEANUP, policy, topic.configs[CLEANUP]):
        yield TopologyFault(
            Severity.WARN,
            topic.name,
            f"has {CLEANUP}={policy}",
            "nothing, but what is done cannot be trimmed and fills the disks",
            _mend(topic, CLEANUP),
        )


def _retention(topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    for config in (RETENTION_MS, RETENTION_BYTES):
        value, needed = actual.config(config), topic.configs[config]
        if suffices(config, value, needed):
            continue
        if topic.role is Role.DEAD_LETTER and int(needed) >= 0:
            loss = f"dead letters are deleted before they expire ({_spoken(int(needed))})"
        elif topic.role is Role.DEAD_LETTER:
            loss = "dead letters that never expire are deleted all the same"
        elif topic.role is Role.JOURNAL:
            loss = "the audit can no longer tell what became of older records"
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
            "the time a record was put there is overwritten, and due times and retention count from it",
            _mend(topic, TIMESTAMP_TYPE),
        )
    for config in (TIMESTAMP_BEFORE, TIMESTAMP_AFTER):
        limit = actual.config(config)
        if limit is not None and int(limit) < CLOCK_TOLERANCE_MS:
            yield TopologyFault(
                Severity.WARN,
                topic.name,
                f"has {config}={limit}",
                f"nothing, but a worker whose clock is wrong by more than {_spoken(int(limit))} is halted",
                f"set {config} to {CLOCK_TOLERANCE_MS} or more with kafka-configs.sh",
            )
    if actual.config(UNCLEAN) == "true":
        yield TopologyFault(
            Severity.WARN,
            topic.name,
            f"has {UNCLEAN}=true",
            "confirmed records are lost when a replica that lags behind becomes the leader",
            f"set {UNCLEAN}=false with kafka-configs.sh",
        )


def _in_sync(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    if not suffices(MIN_INSYNC, actual.config(MIN_INSYNC), topic.configs[MIN_INSYNC]):
        strictest = max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.number(MIN_INSYNC))
        yield TopologyFault(
            Severity.REFUSE,
            topic.name,
            f"has {MIN_INSYNC}={actual.config(MIN_INSYNC)}, its source {strictest.name} {strictest.number(MIN_INSYNC)}",
            "a copy counts as safe while fewer brokers have it than had the record itself",
            _mend(topic, MIN_INSYNC),
        )


def _size(plan: TopologyPlan, topic: PlannedTopic, actual: TopicFacts) -> Iterator[TopologyFault]:
    if suffices(MAX_MESSAGE, actual.config(MAX_MESSAGE), topic.configs[MAX_MESSAGE]):
        return
    largest = max((plan.sources[name] for name in topic.sources), key=lambda facts: facts.number(MAX_MESSAGE))
    smaller = actual.number(MAX_MESSAGE) < largest.number(MAX_MESSAGE)
    room = "" if smaller else f" and {HEADROOM_BYTES} bytes more for headers"
    yield TopologyFault(
        Severity.REFUSE if smaller else Severity.WARN,
        topic.name,
        f"takes at most {actual.number(MAX_MESSAGE)} bytes ({MAX_MESSAGE}), its source {largest.name} "
        f"{largest.number(MAX_MESSAGE)}{room}",
        "a record that fits into the source but not here can neither be retried nor dead-lettered",
        _mend(topic, MAX_MESSAGE),
    )


def _spoken(milliseconds: int) -> str:
    return format_duration(timedelta(milliseconds=milliseconds))
