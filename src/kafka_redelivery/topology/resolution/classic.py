"""Resolves Classic's maps, strategies and plugins for one destination."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_redelivery.topology.classic.choice import choose
from kafka_redelivery.topology.classic.configuration import (
    BrokerLayer,
    ClassicConfiguration,
    ClientChoice,
    StrategyChoice,
    broker_for,
    client_for,
    strategy_for,
)
from kafka_redelivery.topology.classic.destination import Destination
from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.classic.plugins import SHORTEST_BROKER_DELAY_MS
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.classic.strategies import DiscardingStrategy, IndividualStrategy
from kafka_redelivery.topology.faults import TopologyFault, warning
from kafka_redelivery.topology.java.numbers import MAX_LIFETIME_MS
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry
from kafka_redelivery.topology.topics.naming import kafka_topic

FALLBACK = "DLQ.{topic}"
"""The template of the dead-letter topic if the broker would drop dead letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicResolution:
    """What applies to a destination: the layer, the choices in each map, and the policy entry that follows from them.

    ``redelivery_layer`` is ``redeliveryPlugin``, ``redeliveryPolicyMap``, ``redeliveryPolicy``, ``default``, or two of
    them joined with ``+`` if client and broker both redeliver.
    """

    destination: Destination
    redelivery_layer: str
    policy: RedeliveryPolicy
    """The policy that applies; the broker's if there are two layers."""

    strategy: StrategyChoice
    broker: BrokerLayer
    client: ClientChoice
    dead_letter: Destination
    """The dead-letter destination in the broker."""

    entry: PolicyEntry
    matched: tuple[str, ...]
    """The patterns of all maps that match, the most specific first."""

    warnings: tuple[TopologyFault, ...]


def resolve_classic(
    configuration: ClassicConfiguration,
    destination: Destination,
    topic: str,
    group: str,
    maximum_handler_delay: int | None = None,
) -> ClassicResolution:
    """Resolve one destination.

    Args:
        configuration: the configuration of client and broker.
        destination: the destination in the broker.
        topic: the Kafka topic of the destination.
        group: the consumer group, which takes the place of a durable subscriber.
        maximum_handler_delay: see :class:`PolicyEntry`.

    Raises:
        MatchError: a pattern of ``dropOnly`` is not a regular expression.
    """
    strategy = strategy_for(configuration, destination)
    broker = broker_for(configuration, destination)
    client = client_for(configuration, destination)
    dead_letter = strategy.strategy.destination_for(destination, group)
    resolved = _Resolver(topic, strategy, broker, client, dead_letter)
    layer, policy, redelivery = resolved.redelivery()
    return ClassicResolution(
        destination=destination,
        redelivery_layer=layer,
        policy=policy,
        strategy=strategy,
        broker=broker,
        client=client,
        dead_letter=strategy.strategy.destination_for(destination),
        entry=PolicyEntry(
            redelivery_policy=redelivery,
            dead_letter_strategy=resolved.dead_letters(),
            maximum_handler_delay=maximum_handler_delay,
        ),
        matched=_matched(configuration, destination, broker, client),
        warnings=tuple(resolved.warnings()),
    )


def _matched(
    configuration: ClassicConfiguration, destination: Destination, broker: BrokerLayer, client: ClientChoice
) -> tuple[str, ...]:
    """Return the patterns of all maps that match, ranked together."""
    patterns = [pattern for pattern, _ in configuration.policy_entries]
    patterns += broker.matched
    patterns += [configuration.client.entries[index][0] for index in client.choice.ranked]
    patterns = list(dict.fromkeys(patterns))
    return tuple(str(patterns[index]) for index in choose(patterns, destination).ranked)


@dataclass(frozen=True, slots=True)
class _Resolver:
    topic: str
    strategy: StrategyChoice
    broker: BrokerLayer
    client: ClientChoice
    dead_letter: Destination

    def redelivery(self) -> tuple[str, RedeliveryPolicy, RedeliveryPolicy | LayeredRedelivery]:
        """Return the layer, its policy, and the policy of all layers together.

        If the broker redelivers and the client's policy is not set, the client does not redeliver. Otherwise the two
        counts would multiply, so users of the plugin are advised to switch off the client's redelivery.
        """
        if not (self.broker.effective and self.broker.policy is not None):
            return self.client.layer, self.client.policy, self.client.policy
        if not self.client.given or self.client.policy.maximum_redeliveries == 0:
            return "redeliveryPlugin", self.broker.policy, self.broker.policy
        layers = LayeredRedelivery(self.client.policy, self.broker.policy)
        return f"{self.client.layer}+redeliveryPlugin", self.broker.policy, layers

    def dead_letters(self) -> DeadLetterStrategy:
        strategy = self.strategy.strategy
        if isinstance(strategy, DiscardingStrategy) or (
            self.broker.dropped_by is not None and self.broker.expired_dropped_by is not None
        ):
            kind = DeadLetterKind.DISCARDING
        else:
            individual = isinstance(strategy, IndividualStrategy) or self.loops
            kind = DeadLetterKind.INDIVIDUAL if individual else DeadLetterKind.SHARED
        return DeadLetterStrategy(
            kind=kind,
            topic=self.dead_letter_topic,
            process_expired=strategy.process_expired and self.broker.expired_dropped_by is None,
            process_non_persistent=strategy.process_non_persistent,
            process_poison=self.broker.dropped_by is None,
            # A longer lifetime overflows in the broker, so that the dead letter never expires.
            expiration=strategy.expiration if 0 < strategy.expiration <= MAX_LIFETIME_MS else 0,
            enable_audit=strategy.enable_audit,
            max_audit_depth=strategy.max_audit_depth,
            max_producers_to_audit=strategy.max_producers_to_audit,
            poison_report_interval=self.broker.poison_report_interval,
            expired_report_interval=self.broker.expired_report_interval,
        )

    @property
    def loops(self) -> bool:
        """Whether the dead-letter destination is the destination itself; the broker drops dead letters then."""
        return kafka_topic(self.dead_letter.name) == self.topic

    @property
    def dead_letter_topic(self) -> str:
        return FALLBACK.replace("{topic}", self.topic) if self.loops else kafka_topic(self.dead_letter.name)

    def warnings(self) -> Iterator[TopologyFault]:
        for choice, what in (
            (self.strategy.choice, "policyEntries"),
            (self.broker.choice, "redeliveryPolicyMap of the redelivery plugin"),
            (self.client.choice, "redeliveryPolicyMap of the client"),
        ):
            if not choice.stable:
                yield warning(
                    self.topic,
                    f"matches several entries of {what} that the broker ranks differently from run to run",
                    "nothing; here the most specific one decides always, see docs/migration.md",
                    "give it an entry of its own",
                )
        if self.loops and self.dead_letters().kind is not DeadLetterKind.DISCARDING:
            yield warning(
                self.topic,
                f"is its own dead-letter destination ({self.dead_letter})",
                f"nothing here: they go to {self.dead_letter_topic}; the broker drops them",
                "give the strategy a prefix or a suffix",
            )
        elif kafka_topic(self.dead_letter.name) != self.dead_letter.name:
            yield warning(
                self.topic,
                f"has dead letters in {self.dead_letter.name}, which Kafka does not allow as a name",
                f"nothing; the topic is {self.dead_letter_topic}",
                "choose a prefix of letters, digits, '.', '_' and '-' to have the name you wrote",
            )
        policy = self.broker.policy
        if policy is not None and min(policy.initial_redelivery_delay, policy.redelivery_delay) < (
            SHORTEST_BROKER_DELAY_MS
        ):
            yield warning(
                self.topic,
                f"has a delay below {SHORTEST_BROKER_DELAY_MS} ms in the redelivery plugin",
                "nothing; a real broker with this configuration does not start",
                "nothing needs to be done here",
            )
