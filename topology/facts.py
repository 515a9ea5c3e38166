"""What a cluster has, as far as a plan is compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
"""What a topic has if nothing is known of it."""


class Bounds(NamedTuple):
    """Offsets of a partition: of its oldest record, and of the next one to be written."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic as it is."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[int, Bounds] = field(default_factory=dict)
    """By partition; a partition without a leader is missing."""

    def config(self, name: str) -> str | None:
        """A property's value, the broker's default where it is known, else ``None``."""
        return self.configs.get(name, BROKER_DEFAULTS.get(name))

    def number(self, name: str) -> int:
        """A numeric property's value; the broker's default where nothing is known of it."""
        return int(self.configs.get(name, BROKER_DEFAULTS[name]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Those of the topics asked for that exist, and where the groups stand in them."""

    topics: Mapping[str, TopicFacts]
    committed: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    """By group: (topic, partition) -> committed offset. A partition without one is missing."""

    holding: frozenset[str] = frozenset()
    """Tiers no longer configured in which records wait that nobody has released."""

    creates_topics: bool = False
    """Whether the brokers create a topic that somebody merely asks for."""

    def offset(self, group: str, topic: str, partition: int) -> int | None:
        """A committed offset."""
        return self.committed.get(group, {}).get((topic, partition))
