"""The section of ActiveMQ Classic's maps, strategies and plugins, with Classic's names."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kafka_redelivery.topology.classic.configuration import ClassicConfiguration, ClientLayer
from kafka_redelivery.topology.classic.destination import ANY_DESCENDANT, Destination, DestinationKind, named
from kafka_redelivery.topology.classic.plugins import DiscardingPlugin, Plugin, RedeliveryPlugin
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.classic.strategies import (
    SHARED_QUEUE,
    DiscardingStrategy,
    IndividualStrategy,
    SharedStrategy,
    Strategy,
)
from kafka_redelivery.topology.config.section import HandlerDelay, RedeliveryPolicySection, Section
from kafka_redelivery.topology.java.numbers import LONG_MAX, LONG_MIN


class TargetSection(Section):
    """The destinations of an entry, by exactly one of four names."""

    queue: str | None = Field(
        None,
        min_length=1,
        description="Name or pattern of queues: * matches one word, > all remaining words; A,B names two.",
    )
    topic: str | None = Field(None, min_length=1, description="Name or pattern of topics.")
    temp_queue: bool = Field(
        default=False, description="All temporary queues: sources with destination temp-queue:NAME."
    )
    temp_topic: bool = Field(default=False, description="All temporary topics.")

    @property
    def chosen(self) -> list[str]:
        """The names that are present."""
        given = {"queue": self.queue, "topic": self.topic, "tempQueue": self.temp_queue, "tempTopic": self.temp_topic}
        return [name for name, value in given.items() if value not in {None, False}]

    def destination(self) -> Destination:
        """Return the pattern.

        Raises:
            DestinationError: its name is empty.
        """
        if self.queue is not None:
            return named(DestinationKind.QUEUE, self.queue)
        if self.topic is not None:
            return named(DestinationKind.TOPIC, self.topic)
        return Destination(
            DestinationKind.TEMP_QUEUE if self.temp_queue else DestinationKind.TEMP_TOPIC, ANY_DESCENDANT
        )


class _AbstractStrategySection(Section):
    """The properties that all strategies have."""

    process_expired: bool = Field(default=True, description="true dead-letters expired records, false drops them.")
    process_non_persistent: bool = Field(
        default=False,
        description=("true dead-letters records with the header JMSDeliveryMode: NON_PERSISTENT, false drops them."),
    )
    expiration: int = Field(
        0, ge=LONG_MIN, le=LONG_MAX, description="Lifetime of a dead letter in ms; 0: it does not expire."
    )
    enable_audit: bool = Field(default=True, description="true: a record is not dead-lettered twice.")
    max_audit_depth: int = Field(
        2048, ge=-(2**31), lt=2**31, description="Approximate number of records remembered per partition."
    )
    max_producers_to_audit: int = Field(64, ge=-(2**31), lt=2**31, description="Number of partitions remembered.")


class SharedStrategySection(_AbstractStrategySection):
    """``sharedDeadLetterStrategy``: one dead-letter queue for many destinations."""

    dead_letter_queue: TargetSection | None = Field(None, description="Default: the queue ActiveMQ.DLQ.")

    def value(self) -> SharedStrategy:
        """Return the strategy."""
        return SharedStrategy(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        target = self.dead_letter_queue
        queue = SHARED_QUEUE if target is None else target.destination()
        return self.model_dump(exclude={"dead_letter_queue"}) | {"dead_letter_queue": queue}


class IndividualStrategySection(_AbstractStrategySection):
    """``individualDeadLetterStrategy``: one dead-letter queue or topic per destination."""

    queue_prefix: str = Field("ActiveMQ.DLQ.Queue.", description="Put before the name of a queue.")
    topic_prefix: str = Field("ActiveMQ.DLQ.Topic.", description="Put before the name of a topic.")
    queue_suffix: str | None = Field(None, description="Put after the name of a queue.")
    topic_suffix: str | None = Field(None, description="Put after the name of a topic.")
    use_queue_for_queue_messages: bool = Field(default=True, description="No effect: on Kafka both are topics.")
    use_queue_for_topic_messages: bool = Field(default=True, description="No effect: on Kafka both are topics.")
    destination_per_durable_subscriber: bool = Field(
        default=False,
        description=("For topics: one dead-letter topic per consumer group, with the group's name before the suffix."),
    )

    def value(self) -> IndividualStrategy:
        """Return the strategy."""
        return IndividualStrategy(**self.model_dump())


class DiscardingStrategySection(SharedStrategySection):
    """``discarding``: dead letters are counted and dropped."""

    def value(self) -> DiscardingStrategy:
        """Return the strategy."""
        return DiscardingStrategy(**self._arguments())


class StrategySection(Section):
    """``deadLetterStrategy`` of a policy entry: at most one of three."""

    shared_dead_letter_strategy: SharedStrategySection | None = Field(
        None, description="One dead-letter topic for many sources."
    )
    individual_dead_letter_strategy: IndividualStrategySection | None = Field(
        None, description="A dead-letter topic for each source."
    )
    discarding: DiscardingStrategySection | None = Field(
        None, description="No dead letters: failed records are dropped and counted."
    )

    def value(self) -> Strategy | None:
        """Return the strategy, ``None`` if there is none."""
        for section in (self.shared_dead_letter_strategy, self.individual_dead_letter_strategy, self.discarding):
            if section is not None:
                return section.value()
        return None


class DefaultPolicySection(Section):
    """``defaultEntry``: applies to destinations that no entry matches."""

    dead_letter_strategy: StrategySection | None = Field(
        None, description="Absent: shared, with the queue ActiveMQ.DLQ."
    )


class MapEntrySection(TargetSection):
    """An entry of ``policyEntries``. It inherits nothing from other entries."""

    dead_letter_strategy: StrategySection | None = Field(
        None, description="Absent: shared, with the queue ActiveMQ.DLQ."
    )


class PolicyOfTargetSection(RedeliveryPolicySection, TargetSection):
    """A redelivery policy for the destinations that match."""


class RedeliveryMapSection(Section):
    """``redeliveryPolicyMap``: redelivery policies by destination."""

    redelivery_policy_entries: tuple[PolicyOfTargetSection, ...] = Field(
        (), description="Redelivery policies, each with its destinations."
    )
    default_entry: RedeliveryPolicySection | None = Field(
        None, description="Applies to destinations that no entry matches."
    )

    def entries(self) -> tuple[tuple[Destination, RedeliveryPolicy], ...]:
        """Return the policies with their patterns."""
        return tuple((entry.destination(), entry.value()) for entry in self.redelivery_policy_entries)

    def default(self) -> RedeliveryPolicy | None:
        """Return the policy of the default entry, ``None`` if there is none."""
        return None if self.default_entry is None else self.default_entry.value()


class RedeliveryPluginSection(Section):
    """``redeliveryPlugin``: redelivery by the broker."""

    fallback_to_dead_letter: bool = Field(
        default=True, description="Destination without a policy in the plugin: true dead-letters, false drops."
    )
    send_to_dlq_if_max_retries_exceeded: bool = Field(
        default=True, description="After the last redelivery: true dead-letters, false drops."
    )
    redelivery_policy_map: RedeliveryMapSection = Field(RedeliveryMapSection(), description="The plugin's policies.")

    def value(self) -> RedeliveryPlugin:
        """Return the plugin."""
        return RedeliveryPlugin(
            entries=self.redelivery_policy_map.entries(),
            default_entry=self.redelivery_policy_map.default(),
            fallback_to_dead_letter=self.fallback_to_dead_letter,
            send_to_dlq_if_max_retries_exceeded=self.send_to_dlq_if_max_retries_exceeded,
        )


class DiscardingPluginSection(Section):
    """``discardingDLQBrokerPlugin``: drops dead letters by the name of their destination; by default all of them."""

    drop_all: bool = Field(default=True, description="Drop all dead letters.")
    drop_temporary_topics: bool = Field(default=True, description="Drop those of temporary topics.")
    drop_temporary_queues: bool = Field(default=True, description="Drop those of temporary queues.")
    drop_only: str | None = Field(
        None, description="Regular expressions for whole names, separated by spaces; needs dropAll: false."
    )
    report_interval: int = Field(
        1000,
        ge=-(2**31),
        lt=2**31,
        description="Number of dropped records from one log line to the next; 0: no log lines.",
    )

    def value(self) -> DiscardingPlugin:
        """Return the plugin."""
        return DiscardingPlugin(**self.model_dump())


class PluginSection(Section):
    """An item of ``plugins``: exactly one of two."""

    redelivery_plugin: RedeliveryPluginSection | None = Field(
        None,
        description=(
            "Redelivery by the broker after the client has given up; without redeliveryPolicy of the "
            "client, by the broker alone."
        ),
    )
    discarding_plugin: DiscardingPluginSection | None = Field(
        None, alias="discardingDLQBrokerPlugin", description="Drops dead letters by the name of their destination."
    )

    def value(self) -> Plugin:
        """Return the plugin."""
        if self.redelivery_plugin is not None:
            return self.redelivery_plugin.value()
        return (self.discarding_plugin or DiscardingPluginSection()).value()


class ClassicSection(Section):
    """``activemq``: the configuration of Classic, of its client and of its broker."""

    redelivery_policy: RedeliveryPolicySection | None = Field(
        None, description="Policy of the client for all destinations. Absent: ActiveMQ's defaults."
    )
    redelivery_policy_map: RedeliveryMapSection = Field(
        RedeliveryMapSection(), description="Policies of the client by destination."
    )
    plugins: tuple[PluginSection, ...] = Field(
        (), description="Plugins in the order of the broker's file; the last one acts first."
    )
    policy_entries: tuple[MapEntrySection, ...] = Field(
        (), description=("Dead-letter strategies by destination. Only the best match applies; nothing is inherited.")
    )
    default_entry: DefaultPolicySection | None = Field(
        None, description="Applies to destinations that no entry matches. Absent: one shared ActiveMQ.DLQ."
    )
    maximum_handler_delay: HandlerDelay = None

    def value(self) -> ClassicConfiguration:
        """Return the configuration.

        Raises:
            DestinationError: a name is empty.
        """
        default = None if self.default_entry is None else self.default_entry.dead_letter_strategy
        return ClassicConfiguration(
            policy_entries=tuple(
                (
                    entry.destination(),
                    None if entry.dead_letter_strategy is None else entry.dead_letter_strategy.value(),
                )
                for entry in self.policy_entries
            ),
            default_entry=None if default is None else default.value(),
            has_default_entry=self.default_entry is not None,
            plugins=tuple(plugin.value() for plugin in self.plugins),
            client=ClientLayer(
                policy=None if self.redelivery_policy is None else self.redelivery_policy.value(),
                entries=self.redelivery_policy_map.entries(),
                default_entry=self.redelivery_policy_map.default(),
            ),
        )
