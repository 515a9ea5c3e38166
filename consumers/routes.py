"""Where the records of one source go, settled once at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from serdes.codec import Codec, RawCodec
from topology.decision import DeadLetter, Reason
from topology.lineage import Lineage
from topology.naming import Naming
from topology.policy import AddressSettings, PolicyEntry
from topology.settings import Settings
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
    expiry: str | None = None
    """Where expired records go, if not to ``dead_letter``: Artemis's expiry address."""

    raw: bool = field(init=False)
    """Whether key and value need no decoding."""

    exhausted_at_once: bool = field(init=False)
    """Whether the policy allows not even a first delivery."""

    sets_expiration: bool = field(init=False)
    """Whether the policy says when a record expires, and not the record alone."""

    def __post_init__(self) -> None:
        """Settle what would have to be asked for each record."""
        object.__setattr__(self, "raw", type(self.key) is type(self.value) is RawCodec)
        object.__setattr__(self, "sets_expiration", isinstance(self.entry.redelivery_policy, AddressSettings))
        object.__setattr__(self, "exhausted_at_once", self.entry.redelivery_policy.exceeded(0))

    @classmethod
    def of(cls, settings: Settings, topic: str, key: Codec, value: Codec) -> Route:
        """The route of a configured source."""
        naming, entry = settings.naming(), settings.entry(topic)
        strategy = entry.dead_letter_strategy
        dead_letter = naming.dead_letter_topic(strategy.topic, topic)
        expiry = None if strategy.expiry_topic is None else naming.dead_letter_topic(strategy.expiry_topic, topic)
        return cls(topic, naming.ready_topic(topic), dead_letter, entry, key, value, expiry)

    def dead_letter_of(self, decision: DeadLetter) -> str:
        """The topic of one dead letter."""
        if self.expiry is not None and decision.reason is Reason.EXPIRED:
            return self.expiry
        return self.dead_letter

    def with_expiration(self, lineage: Lineage) -> Lineage:
        """The lineage with the expiration that the policy gives the record."""
        if not self.sets_expiration:
            return lineage
        expiration_ms = self.entry.expiration_ms(lineage.expiration_ms, lineage.timestamp_ms)
        return lineage._replace(expiration_ms=expiration_ms)


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
