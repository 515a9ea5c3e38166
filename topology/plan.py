"""Which topics a configuration needs, and where their readers begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from topology.facts import (
    CLEANUP,
    MAX_MESSAGE,
    MIN_INSYNC,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_TYPE,
    TopicFacts,
)
from topology.naming import Naming
from topology.policy import DeadLetterStrategy
from topology.settings import Settings
from topology.tiers import tier_set
from topology.topology_fault import TopologyFault

HEADROOM_BYTES = 4096
"""What a copy may be larger than its record: our headers, and those of optional profiles."""

UNLIMITED = "-1"

KEEP_ALL: Mapping[str, str] = {CLEANUP: "delete", RETENTION_MS: UNLIMITED, RETENTION_BYTES: UNLIMITED}
"""Nothing is deleted but by whoever knows that it is done."""


class Role(StrEnum):
    """What a topic of ours is for."""

    RETRY = "retry"
    MIXED = "mixed"
    READY = "ready"
    DEAD_LETTER = "dead-letter"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """One topic that we own, as it must at least be.

    ``sources`` are those whose records it can hold; ``reader`` is the group that needs a committed
    offset in each of its partitions, ``None`` if no group of ours reads it.
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
    """Everything a configuration needs, in the order of a record's life."""

    group: str
    naming: Naming
    sources: Mapping[str, TopicFacts]
    missing_sources: tuple[str, ...]
    topics: tuple[PlannedTopic, ...]
    outputs: tuple[str, ...] = ()
    warnings: tuple[TopologyFault, ...] = ()
    """What the policies of the sources mean that their author may not expect."""

    def topic(self, name: str) -> PlannedTopic | None:
        """The planned topic of that name."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def retired_names(self, existing: Iterable[str]) -> dict[str, int | None]:
        """Tiers (with their delay) and the mixed topic that exist, but that no policy needs any more.

        The scheduler still reads them, so they need offsets, and must be kept until they are empty.
        """
        names = set(existing)
        planned = {topic.name for topic in self.topics}
        found: dict[str, int | None] = dict(sorted(self.naming.tiers_among(names).items()))
        if self.naming.mixed_topic() in names:
            found[self.naming.mixed_topic()] = None
        return {name: delay for name, delay in found.items() if name not in planned}

    def retired(self, existing: Mapping[str, TopicFacts]) -> tuple[PlannedTopic, ...]:
        """Those topics as they must be for as long as they hold records: as they are, but keeping everything."""
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

    def readers(self, existing: Iterable[str]) -> dict[str, str]:
        """The topics in which a group of ours needs offsets -> that group; retired tiers among them."""
        found = {topic.name: topic.reader for topic in self.topics if topic.reader is not None}
        return found | dict.fromkeys(self.retired_names(existing), scheduler_group(self.group))

    def document(self) -> dict[str, Any]:
        """The plan as plain data: enough for whoever creates the topics and first offsets by hand."""
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
    """The consumer group of a group's schedulers."""
    return f"{group}.scheduler"


def plan(settings: Settings, sources: Mapping[str, TopicFacts]) -> TopologyPlan:
    """The topics that a configuration needs.

    Args:
        settings: the configuration.
        sources: what is known of its source topics; those that do not exist are missing. What depends
            on a missing one alone is left out.
    """
    known = [sources[source.topic] for source in settings.sources if source.topic in sources]
    topics: list[PlannedTopic] = []
    if known:
        topics += _waiting(settings, known)
        topics += [_ready(settings, source) for source in known]
        topics += _dead_letter(settings, known)
        if settings.journal:
            topics.append(_internal(settings, settings.naming().journal_topic(), Role.JOURNAL, known))
    return TopologyPlan(
        group=settings.group,
        naming=settings.naming(),
        sources={source.name: source for source in known},
        missing_sources=tuple(source.topic for source in settings.sources if source.topic not in sources),
        topics=tuple(topics),
        outputs=tuple(output.topic for output in settings.outputs),
        warnings=tuple(warning for found in settings.resolutions().values() for warning in found.warnings),
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


def _retention(strategies: Sequence[DeadLetterStrategy]) -> str:
    """As long as the longest-lived dead letter.

    One that never expires is kept for ever, and one that is to be moved until that is done.
    """
    if any(strategy.expiration == 0 or strategy.expiry_topic is not None for strategy in strategies):
        return UNLIMITED
    return str(max(strategy.expiration for strategy in strategies))


def _internal(
    settings: Settings,
    name: str,
    role: Role,
    sources: Sequence[TopicFacts],
    *,
    reader: str | None = None,
    delay_ms: int | None = None,
    retention_ms: str = UNLIMITED,
) -> PlannedTopic:
    replication = settings.topics.replication_factor
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
            MAX_MESSAGE: str(max(source.number(MAX_MESSAGE) for source in sources) + HEADROOM_BYTES),
        },
        sources=tuple(source.name for source in sources),
        reader=reader,
        delay_ms=delay_ms,
    )


def suffices(config: str, actual: str | None, needed: str) -> bool:
    """Whether a property that a topic has does what the planned value would do; more is enough, too."""
    if actual is None:
        return False
    if config in {RETENTION_MS, RETENTION_BYTES}:
        # Kafka reads any negative retention as none.
        return int(actual) < 0 or (int(needed) >= 0 and int(actual) >= int(needed))
    if config in {MIN_INSYNC, MAX_MESSAGE}:
        return int(actual) >= int(needed)
    return actual == needed
