"""Where the records of one source go, settled once at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from serdes.codec import Codec, RawCodec
from topology.naming import Naming
from topology.policy import PolicyEntry
from topology.tiers import TierSet


@dataclass(frozen=True, slots=True)
class Route:
    """One source topic: what is read with it, and what happens to its failures."""

    source: str
    ready: str
    dead_letter: str
    entry: PolicyEntry
    key: Codec
    value: Codec
    raw: bool = field(init=False)
    """Whether key and value need no decoding."""

    exhausted_at_once: bool = field(init=False)
    """Whether the policy allows not even a first delivery."""

    def __post_init__(self) -> None:
        """Settle what would have to be asked for each record."""
        object.__setattr__(self, "raw", type(self.key) is type(self.value) is RawCodec)
        object.__setattr__(self, "exhausted_at_once", self.entry.redelivery_policy.exceeded(0))


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where records wait: the tiers, how many partitions each topic has, and the topics' names."""

    naming: Naming
    tiers: TierSet
    partitions: Mapping[str, int]
    _topics: dict[int | None, str] = field(init=False)
    """The topic of each tier, by its delay; ``None`` = the mixed one."""

    def __post_init__(self) -> None:
        """Make the names."""
        topics: dict[int | None, str] = {delay: self.naming.tier_topic(delay) for delay in self.tiers.delays_ms}
        object.__setattr__(self, "_topics", {None: self.naming.mixed_topic(), **topics})

    def place(self, remaining_ms: int) -> str:
        """The topic where a record with so much left waits next."""
        return self._topics[self.tiers.place(remaining_ms)]

    def partition(self, topic: str, origin: int) -> int:
        """The partition of ``topic`` for a record from partition ``origin`` of its source: never left to a hash."""
        return origin % self.partitions[topic]
