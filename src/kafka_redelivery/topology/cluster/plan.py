"""The topics that a configuration needs, and the groups that need committed offsets in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kafka_redelivery.topology.cluster.facts import (
    BROKER_DEFAULTS,
    CLEANUP,
    MAX_MESSAGE,
    MIN_INSYNC,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_TYPE,
    ClusterFacts,
    TopicFacts,
)
from kafka_redelivery.topology.config.rules.clients import transaction_timeout_ms, wants_consumer_protocol
from kafka_redelivery.topology.config.section import milliseconds
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH, Ordering, Settings, SourceSection
from kafka_redelivery.topology.faults import TopologyFault
from kafka_redelivery.topology.java.numbers import INT_MAX
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.policy.entry import DeadLetterStrategy
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import tier_set

HEADROOM_BYTES = 4096
"""By how many bytes a retry record or dead letter may exceed its source record, because of added headers."""

_MANY = 2
"""How many times the advised partitions a tier or ready topic has at most without an advice to narrow it."""

UNLIMITED = "-1"

KEEP_ALL: Mapping[str, str] = {CLEANUP: "delete", RETENTION_MS: UNLIMITED, RETENTION_BYTES: UNLIMITED}
"""Retention is unlimited: only this project deletes records, once they are finished."""


class Role(StrEnum):
    """The purpose of an internal topic."""

    RETRY = "retry"
    MIXED = "mixed"
    READY = "ready"
    DEAD_LETTER = "dead-letter"
    JOURNAL = "journal"
    CONTROL = "control"
    JOBS = "jobs"
    ACTIONS = "actions"
    PARKING = "parking"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """An internal topic, with the minimum that it must have.

    ``sources`` are the source topics whose records it can contain. ``reader`` is the group that needs a committed
    offset in each of its partitions; ``None`` if no group reads it.
    """

    name: str
    role: Role
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    sources: tuple[str, ...]
    reader: str | None = None
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPlan:
    """All topics that a configuration needs, in the order in which a record passes through them."""

    group: str
    naming: Naming
    sources: Mapping[str, TopicFacts]
    missing_sources: tuple[str, ...]
    topics: tuple[PlannedTopic, ...]
    outputs: tuple[str, ...] = ()
    out_of_order: bool = False
    """Whether records may finish out of order or wait in place, so that commits need metadata."""

    default_width: int | None = None
    """The largest number of partitions of tiers and ready topics, unless the configuration has one.

    ``None``: as many as their sources."""

    advised_width: int = DEFAULT_WIDTH
    """The configured number, or that of a new group."""

    consumer_protocol: bool = False
    """Whether the group uses the consumer protocol (KIP-848)."""

    transaction_ms: int | None = None
    """How long a transaction may be open; ``None`` if there are none, or if it is not known."""

    outages: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By source: its dependencies, each with its ``maxOutage`` in ms; ``None`` = without limit."""

    warnings: tuple[TopologyFault, ...] = ()
    """Effects of the sources' policies that their author may not expect."""

    def topic(self, name: str) -> PlannedTopic | None:
        """Return the planned topic with this name; ``None`` if there is none."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def retired_names(self, existing: Iterable[str]) -> dict[str, int | None]:
        """Return the existing tiers, with their delay in ms, and the mixed topic that no policy needs any more.

        The scheduler still reads them, so they need committed offsets and must be kept until they are empty.
        """
        names = set(existing)
        planned = {topic.name for topic in self.topics}
        found: dict[str, int | None] = dict(self.naming.tiers_among(names))
        if self.naming.mixed_topic() in names:
            found[self.naming.mixed_topic()] = None
        return {name: delay for name, delay in found.items() if name not in planned}

    def retired(self, existing: Mapping[str, TopicFacts]) -> tuple[PlannedTopic, ...]:
        """Return the retired topics as they must be while they contain records: unchanged, but without retention."""
        return tuple(
            PlannedTopic(
                name=name,
                role=Role.MIXED if delay is None else Role.RETRY,
                partitions=existing[name].partitions,
                replication_factor=existing[name].replication_factor,
                configs=KEEP_ALL,
                sources=(),
                reader=scheduler_group(self.group),
                delay_ms=delay,
            )
            for name, delay in self.retired_names(existing).items()
        )

    def wide(self, existing: Mapping[str, TopicFacts]) -> dict[str, int]:
        """Return the existing tiers and ready topics that should be narrowed, with their numbers of partitions."""
        counts = {
            topic.name: existing[topic.name].partitions
            for topic in self.topics
            if topic.role in {Role.RETRY, Role.MIXED, Role.READY} and topic.name in existing
        }
        return {name: count for name, count in counts.items() if count > _MANY * self.advised_width}

    def unconfigured_ready_topics(self, existing: Iterable[str]) -> dict[str, str]:
        """Return the existing ready topics of sources that are not configured, each with its source.

        The scheduler still releases records to them, and no worker reads them. Some may belong to another group.
        """
        configured = {*self.sources, *self.missing_sources}
        found = self.naming.ready_topics_among(sorted(existing))
        return {name: source for name, source in found.items() if source not in configured}

    def readers(self, existing: Iterable[str]) -> dict[str, str]:
        """Return the group that needs committed offsets in each topic, retired tiers included."""
        found = {topic.name: topic.reader for topic in self.topics if topic.reader is not None}
        return found | dict.fromkeys(self.retired_names(existing), scheduler_group(self.group))

    def document(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON, enough to create the topics and offsets by other means."""
        return {
            "group": self.group,
            "topics": [
                {
                    "name": topic.name,
                    "role": str(topic.role),
                    "partitions": topic.partitions,
                    "replicationFactor": topic.replication_factor,
                    "configs": dict(topic.configs),
                    "sources": list(topic.sources),
                    "delayMs": topic.delay_ms,
                }
                for topic in self.topics
            ],
            "firstOffsets": [
                {"group": topic.reader, "topic": topic.name, "partitions": topic.partitions, "offset": "log start"}
                for topic in self.topics
                if topic.reader is not None
            ],
            "missingSources": list(self.missing_sources),
        }


def scheduler_group(group: str) -> str:
    """Return the consumer group of a group's schedulers."""
    return f"{group}.scheduler"


def retried_sources(settings: Settings) -> list[str]:
    """Return the sources whose failed records are written to other topics, instead of waiting in place."""
    found = {source.topic: settings.handler_of(source.topic) for source in settings.sources}
    return [topic for topic, handler in found.items() if handler is None or handler.non_blocking_redelivery]


def needs_scheduler(settings: Settings) -> bool:
    """Whether failed records wait in retry topics, which only a scheduler releases."""
    tiers = tier_set(settings.entry(topic) for topic in retried_sources(settings))
    return tiers.mixed or bool(tiers.delays_ms)


def schedules_in_driver(settings: Settings) -> bool:
    """Whether the driver of a streaming query runs the group's scheduler."""
    return settings.pipeline is not None and settings.pipeline.scheduler == "driver"


def plan(settings: Settings, sources: Mapping[str, TopicFacts], default_width: int | None = None) -> TopologyPlan:
    """Plan the topics that a configuration needs.

    Args:
        settings: the configuration.
        sources: the source topics that exist, by name. Topics that only a missing source needs are left out.
        default_width: what :func:`default_width_of` returns; needed by those who look at numbers of partitions.
    """
    known = [sources[source.topic] for source in settings.sources if source.topic in sources]
    configured = settings.topics.max_partitions
    topics: list[PlannedTopic] = []
    if known:
        most = default_width if configured is None else configured
        redelivered = [*_waiting(settings, known), *(_ready(settings, source) for source in known)]
        topics += (
            topic if most is None else replace(topic, partitions=min(topic.partitions, most)) for topic in redelivered
        )
        topics += _dead_letter(settings, known)
        if settings.journal:
            topics.append(_internal(settings, settings.naming().journal_topic(), Role.JOURNAL, known))
        topics.append(_control(settings, known))
        if any(topic.role is Role.DEAD_LETTER for topic in topics):
            topics += redrive_topics(settings.naming(), known, settings)
    return TopologyPlan(
        group=settings.group,
        naming=settings.naming(),
        sources={source.name: source for source in known},
        missing_sources=tuple(source.topic for source in settings.sources if source.topic not in sources),
        topics=tuple(topics),
        outputs=tuple(output.topic for output in settings.outputs),
        out_of_order=_out_of_order(settings),
        default_width=default_width,
        advised_width=DEFAULT_WIDTH if configured is None else configured,
        consumer_protocol=wants_consumer_protocol(settings),
        transaction_ms=transaction_timeout_ms(settings) if settings.mode is AcknowledgementMode.TRANSACTED else None,
        outages={source.topic: _outages(settings, source) for source in settings.sources if source.dependencies},
        warnings=tuple(warning for found in settings.resolutions().values() for warning in found.warnings),
    )


def _outages(settings: Settings, source: SourceSection) -> dict[str, int | None]:
    limits = {name: settings.dependencies[name].max_outage for name in source.dependencies}
    return {name: milliseconds(each) for name, each in limits.items()}


def default_width_of(wanted: TopologyPlan, cluster: ClusterFacts) -> int | None:
    """Return how many partitions tiers and ready topics of a group have at most, unless its configuration says.

    A new group has the number of this version, and keeps it. ``None`` for a group that began before there was one: its
    topics are as wide as their sources, and grow with them.

    Args:
        wanted: a plan of the group; its numbers of partitions do not matter.
        cluster: what the cluster has.
    """
    control = cluster.control
    if control.width is not None:
        return control.width
    if control.exists:
        begun = bool(control.sources)
    else:  # offsets in its sources may be those of another program that was the group before
        begun = any(topic not in wanted.sources for offsets in cluster.committed.values() for topic, _ in offsets)
    return None if begun else DEFAULT_WIDTH


def _out_of_order(settings: Settings) -> bool:
    return tier_set(settings.entries().values()).mixed or any(
        handler.ordering is not Ordering.PARTITION
        or settings.mode.by_handler
        or not handler.non_blocking_redelivery
        or handler.persist_delivery_count_before_delivery
        or handler.dependencies  # the records of a key may wait in place for one
        for handler in settings.handlers.values()
    )


def _waiting(settings: Settings, known: Sequence[TopicFacts]) -> list[PlannedTopic]:
    naming = settings.naming()
    tiers = tier_set(settings.entries().values())
    reader = scheduler_group(settings.group)
    topics = [
        _internal(settings, naming.tier_topic(delay), Role.RETRY, known, reader=reader, delay_ms=delay)
        for delay in tiers.delays_ms
    ]
    if tiers.mixed:
        topics.append(_internal(settings, naming.mixed_topic(), Role.MIXED, known, reader=reader))
    return topics


def _ready(settings: Settings, source: TopicFacts) -> PlannedTopic:
    name = settings.naming().ready_topic(source.name)
    return _internal(settings, name, Role.READY, [source], reader=settings.group)


def _dead_letter(settings: Settings, known: Sequence[TopicFacts]) -> list[PlannedTopic]:
    landing: dict[str, list[tuple[TopicFacts, DeadLetterStrategy]]] = {}
    for source in known:
        strategy = settings.entry(source.name).dead_letter_strategy
        for template in strategy.templates:
            name = settings.naming().dead_letter_topic(template, source.name)
            landing.setdefault(name, []).append((source, strategy))
    return [
        _internal(
            settings,
            name,
            Role.DEAD_LETTER,
            [source for source, _ in pairs],
            retention_ms=_retention([strategy for _, strategy in pairs]),
        )
        for name, pairs in landing.items()
    ]


def _control(settings: Settings, sources: Sequence[TopicFacts]) -> PlannedTopic:
    topic = _internal(settings, settings.naming().control_topic(), Role.CONTROL, sources)
    return replace(topic, partitions=1, configs={CLEANUP: "compact", MIN_INSYNC: topic.configs[MIN_INSYNC]})


def redrive_topics(
    naming: Naming, sources: Sequence[TopicFacts], settings: Settings | None = None
) -> list[PlannedTopic]:
    """Plan the topics that sending dead letters again needs, large enough for those of these topics."""
    jobs = replace(_internal(settings, naming.jobs_topic(), Role.JOBS, sources), partitions=1)
    actions = _internal(settings, naming.actions_topic(), Role.ACTIONS, sources)
    largest = {MAX_MESSAGE: str(max(int(BROKER_DEFAULTS[MAX_MESSAGE]), int(actions.configs[MAX_MESSAGE])))}
    return [
        *(replace(topic, configs={**topic.configs, **largest}) for topic in (jobs, actions)),
        _internal(settings, naming.parking_topic(), Role.PARKING, sources),
    ]


def _retention(strategies: Sequence[DeadLetterStrategy]) -> str:
    """Return the retention of a dead-letter topic: the longest expiration of the strategies.

    It is unlimited if some dead letters never expire, or must be kept until the sweeper has moved them.
    """
    if any(strategy.expiration == 0 or strategy.expiry_topic is not None for strategy in strategies):
        return UNLIMITED
    return str(max(strategy.expiration for strategy in strategies))


def _internal(
    settings: Settings | None,
    name: str,
    role: Role,
    sources: Sequence[TopicFacts],
    *,
    reader: str | None = None,
    delay_ms: int | None = None,
    retention_ms: str = UNLIMITED,
) -> PlannedTopic:
    replication = None if settings is None else settings.topics.replication_factor
    return PlannedTopic(
        name=name,
        role=role,
        partitions=max(source.partitions for source in sources),
        replication_factor=max(source.replication_factor for source in sources) if replication is None else replication,
        configs={
            **KEEP_ALL,
            RETENTION_MS: retention_ms,
            TIMESTAMP_TYPE: "CreateTime",
            MIN_INSYNC: str(max(source.number(MIN_INSYNC) for source in sources)),
            MAX_MESSAGE: str(min(max(source.number(MAX_MESSAGE) for source in sources) + HEADROOM_BYTES, INT_MAX)),
        },
        sources=tuple(source.name for source in sources),
        reader=reader,
        delay_ms=delay_ms,
    )


def suffices(config: str, actual: str | None, needed: str) -> bool:
    """Whether the actual value of a property is at least as safe as the planned one."""
    if actual is None:
        return False
    if config in {RETENTION_MS, RETENTION_BYTES}:
        # Kafka reads any negative retention as none.
        return int(actual) < 0 or (int(needed) >= 0 and int(actual) >= int(needed))
    if config in {MIN_INSYNC, MAX_MESSAGE}:
        return int(actual) >= int(needed)
    return actual == needed
