"""The topics and codecs of a source, determined once at start, and where its retries wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.serdes.framing import names_schemas
from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.config.settings import CodecSection, SerdeSection, Settings
from kafka_redelivery.topology.faults import Violation
from kafka_redelivery.topology.policy.decision import DeadLetter, Reason
from kafka_redelivery.topology.policy.entry import PolicyEntry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import TierSet

UNKNOWN_SOURCE = "(unknown)"
"""Label of metrics for an origin that is not configured, because header values are unbounded."""

MAX_PARTITIONS = 8
"""How many partitions of a tier a worker writes to, whatever the number of its source partitions."""


@dataclass(frozen=True, slots=True)
class Route:
    """One source topic: its policy entry, its codecs, and the topics of its redeliveries and dead letters."""

    source: str
    ready: str
    dead_letter: str
    entry: PolicyEntry
    key: Codec
    value: Codec
    expiry: str | None = None
    """Topic of expired records (Artemis's expiry address); ``None`` = ``dead_letter``."""

    blocking: bool = False
    """Whether a failed record waits in place, so that later records wait for it."""

    group: str = ""
    """The consumer group, which :meth:`Context.once` needs."""

    raw: bool = field(init=False)
    """Whether key and value are not decoded."""

    with_schemas: bool = field(init=False)
    """Whether headers may say with which schema the key or the value was written."""

    exhausted_at_once: bool = field(init=False)
    """Whether the policy does not even allow a first delivery."""

    sets_expiration: bool = field(init=False)
    """Whether the policy can set or limit the expiration of a record."""

    plain: bool = field(init=False)
    """Whether a record without headers cannot fail before its first delivery."""

    def __post_init__(self) -> None:
        """Compute what would otherwise be computed for each record."""
        object.__setattr__(self, "with_schemas", names_schemas(self.key) or names_schemas(self.value))
        object.__setattr__(self, "raw", type(self.key) is type(self.value) is RawCodec)
        object.__setattr__(self, "sets_expiration", isinstance(self.entry.redelivery_policy, AddressSettings))
        object.__setattr__(self, "exhausted_at_once", self.entry.redelivery_policy.exceeded(0))
        object.__setattr__(self, "plain", self.raw and not (self.sets_expiration or self.exhausted_at_once))

    @classmethod
    def of(cls, settings: Settings, topic: str, key: Codec, value: Codec) -> Route:
        """Build the route of a configured source."""
        naming, entry = settings.naming(), settings.entry(topic)
        strategy = entry.dead_letter_strategy
        dead_letter = naming.dead_letter_topic(strategy.topic, topic)
        expiry = None if strategy.expiry_topic is None else naming.dead_letter_topic(strategy.expiry_topic, topic)
        handler = settings.handler_of(topic)
        blocking = handler is not None and not handler.non_blocking_redelivery
        return cls(topic, naming.ready_topic(topic), dead_letter, entry, key, value, expiry, blocking, settings.group)

    def dead_letter_of(self, decision: DeadLetter) -> str:
        """Return the topic of a dead letter."""
        if self.expiry is not None and decision.reason is Reason.EXPIRED:
            return self.expiry
        return self.dead_letter

    def with_expiration(self, lineage: Lineage) -> Lineage:
        """Return the lineage with the expiration that the policy sets.

        A record that was sent again got its expiration then: the policy would count from the original's timestamp.
        """
        if not self.sets_expiration or lineage.redrive:
            return lineage
        expiration_ms = self.entry.expiration_ms(lineage.expiration_ms, lineage.timestamp_ms)
        return lineage._replace(expiration_ms=expiration_ms)


@dataclass(frozen=True, slots=True)
class RetryTopics:
    """The topics in which retry records wait: names, tiers and partition counts."""

    naming: Naming
    tiers: TierSet
    partitions: Mapping[str, int]
    _topics: dict[int | None, str] = field(init=False)
    """Topic of each tier by delay in ms; ``None`` = the mixed topic."""

    _ordered: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the topic names."""
        topics: dict[int | None, str] = {delay: self.naming.tier_topic(delay) for delay in self.tiers.delays_ms}
        object.__setattr__(self, "_topics", {None: self.naming.mixed_topic(), **topics})
        object.__setattr__(self, "_ordered", frozenset(topics.values()))

    def topic_for(self, remaining_ms: int) -> str:
        """Return the topic in which a record that is due in ``remaining_ms`` waits next."""
        exact = self._topics.get(remaining_ms)
        return self._topics[self.tiers.tier_for(remaining_ms)] if exact is None else exact

    def is_ordered(self, topic: str) -> bool:
        """Whether the topic is a tier whose records all wait for the same time."""
        return topic in self._ordered

    def partition_for(self, topic: str, origin: int) -> int:
        """Return the partition of ``topic`` for a record of source partition ``origin``. The key has no influence."""
        return origin % self.partitions[topic]


class TierPlacement:
    """Chooses the partition of a tier for the retries of a source partition.

    A producer sends a request for each partition, and each partition of a transaction costs a marker. So the retries
    of many source partitions share the numbers of a few of them. Only numbers of source partitions that the worker
    owns are chosen: other workers, whose clocks may differ, seldom write to the same partitions of a tier.

    While the worker keeps its partitions, a source partition keeps its place, so retries of it that wait for the same
    time stay in order. Partitions that come change no place of a worker that has more than ``MAX_PARTITIONS``: they
    may come from a killed worker, whose open transaction blocks the readers of the partitions that it has written to.
    """

    def __init__(self, owned: Callable[[], frozenset[int]] = frozenset) -> None:
        """Prepare.

        Args:
            owned: returns the numbers of the source partitions that the worker owns; the same object as long as they
                are the same, because it is called for every retry. Without any, or with few, each source partition
                has the place of its own number.
        """
        self._owned = owned
        self._numbers: frozenset[int] = frozenset()
        self._places: tuple[int, ...] = ()
        """Empty: each source partition has the place of its own number."""

    def number_for(self, origin: int) -> int:
        """Return the partition in which retries of the source partition ``origin`` wait."""
        numbers = self._owned()
        if numbers is not self._numbers and numbers:  # none at all is a moment within a rebalance
            self._choose(numbers)
        return self._places[origin % len(self._places)] if self._places else origin

    def _choose(self, numbers: frozenset[int]) -> None:
        if len(numbers) <= MAX_PARTITIONS:
            self._places = ()
        elif self._places:
            kept = zip(range(MAX_PARTITIONS), self._places, strict=True)
            self._places = tuple(place if place in numbers else _spread(slot, numbers) for slot, place in kept)
        else:
            candidates = numbers & self._numbers or numbers
            self._places = tuple(_spread(slot, candidates) for slot in range(MAX_PARTITIONS))
        self._numbers = numbers


def _spread(slot: int, numbers: Collection[int]) -> int:
    """Return the number for a slot: the slots divide the numbers evenly, so that schedulers share the work."""
    return sorted(numbers)[slot * len(numbers) // MAX_PARTITIONS]


def counts_to_produce_with(known: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the partition counts of the existing topics for a process that has known some of them for longer.

    Those keep their number. A producer learns of an added partition some time after other clients, and until then
    refuses a record for it as one that can never be written.
    """
    return {topic: min(count, known.get(topic, count)) for topic, count in now.items()}


def codec_violations(settings: Settings, base: Path) -> Iterator[Violation]:
    """Yield the keys and values whose codec cannot be built, as when a schema file is missing."""
    both: Mapping[str, Sequence[CodecSection]] = {"sources": settings.sources, "outputs": settings.outputs}
    for name, sections in both.items():
        for index, section in enumerate(sections):
            for side, serde in (("key", section.key), ("value", section.value)):
                try:
                    _codec(serde, base)
                except SerdeError as error:
                    fix = "correct it; paths are relative to the folder of the configuration file"
                    yield Violation((name, index, side), f"cannot be used: {error}", fix)


def codecs(section: CodecSection, base: Path) -> tuple[Codec, Codec]:
    """Build the codecs of key and value. Paths are relative to ``base``, the folder of the configuration.

    Raises:
        SerdeError: a schema cannot be read, or the settings contradict each other.
    """
    return _codec(section.key, base), _codec(section.value, base)


def _codec(section: SerdeSection, base: Path) -> Codec:
    return build_codec(
        SerdeSettings(
            format=section.format,
            schemas={number: base / path for number, path in section.schemas.items()},
            reader=None if section.reader is None else base / section.reader,
            write_id=section.write_id,
            registry=section.registry,
            subject=section.subject,
            schema_id=section.schema_id,
            message=section.message,
        )
    )
