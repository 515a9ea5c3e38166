"""The state of a cluster, as far as it is compared with a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT

OFFSETS_TOPIC = "__consumer_offsets"
MAX_METADATA = "offset.metadata.max.bytes"
MAX_TRANSACTION = "transaction.max.timeout.ms"
PROTOCOLS = "group.coordinator.rebalance.protocols"
MIN_INSYNC = "min.insync.replicas"
MAX_MESSAGE = "max.message.bytes"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
CLEANUP = "cleanup.policy"
TIMESTAMP_TYPE = "message.timestamp.type"
TIMESTAMP_BEFORE = "message.timestamp.before.max.ms"
TIMESTAMP_AFTER = "message.timestamp.after.max.ms"
UNCLEAN = "unclean.leader.election.enable"

BROKER_DEFAULTS: Mapping[str, str] = {MIN_INSYNC: "1", MAX_MESSAGE: "1048588"}
"""Kafka's defaults, used for a topic whose configuration is not known."""


class Bounds(NamedTuple):
    """The log start offset and the log end offset of a partition."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The actual state of a topic."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    """Those of ``configs`` that are set at the topic itself, and not by its brokers or by default."""

    bounds: Mapping[int, Bounds] = field(default_factory=dict)
    """The offsets of each partition; a partition without a leader is missing."""

    leaderless: tuple[int, ...] = ()
    """The partitions that have no leader."""

    mark: str = ""
    """What tells it from an older topic of its name; see :mod:`kafka_redelivery.topology.wire.topic_mark`."""

    def config(self, name: str) -> str | None:
        """Return the value of a property; the broker's default if that is known, else ``None``."""
        return self.configs.get(name, BROKER_DEFAULTS.get(name))

    def number(self, name: str) -> int:
        """Return the value of a numeric property; the broker's default if it is not known."""
        return int(self.configs.get(name, BROKER_DEFAULTS[name]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The requested topics that exist, and the committed offsets of the groups in them."""

    topics: Mapping[str, TopicFacts]
    committed: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    """The committed offset by group and (topic, partition); a partition without one is missing.

    So is one whose offset was committed in an older topic of that name."""

    holding: frozenset[str] = frozenset()
    """The retired tiers, and the ready topics of sources that are not configured, with records that wait in them."""

    behind: Mapping[str, int] = field(default_factory=dict)
    """By source: how many unfinished records are so old that the longest outage would outlive their retention.

    Empty if that was not asked."""

    wide_hold: bool | None = None
    """Whether records wait in the topics that should be narrowed; ``None`` = not asked."""

    scheduler_runs: bool | None = None
    """Whether the group of the schedulers has members; ``None`` = not asked or unknown."""

    shared: Mapping[str, str] = field(default_factory=dict)
    """The ready topics in which another group has committed offsets, each with that group."""

    control: ControlState = field(default_factory=ControlState)
    """The content of the group's control topic."""

    control_forbidden: bool = False
    """Whether that topic is there, but may not be read: a process then halts partitions without an offset alone."""

    creates_topics: bool = False
    """Whether the brokers create a topic when a client requests its metadata."""

    max_metadata: int = METADATA_LIMIT
    """The longest metadata of a commit that the brokers accept; Kafka's default if it is not known."""

    max_transaction_ms: int | None = None
    """The longest time-out of a transaction that the brokers accept; ``None`` if it is not known."""

    consumer_protocol: bool | None = None
    """Whether the brokers offer the consumer protocol (KIP-848); ``None`` = not asked or unknown."""

    @property
    def marks(self) -> dict[str, str]:
        """The mark of each topic."""
        return {name: topic.mark for name, topic in self.topics.items()}

    def leaderless(self) -> list[str]:
        """Return the partitions that have no leader, as ``topic-number``."""
        return [f"{topic.name}-{number}" for topic in self.topics.values() for number in topic.leaderless]

    def offset(self, group: str, topic: str, partition: int) -> int | None:
        """Return the committed offset of a group; ``None`` if there is none."""
        return self.committed.get(group, {}).get((topic, partition))
