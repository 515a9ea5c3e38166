"""The part of the file that holds ActiveMQ Classic's maps, strategies and plugins, under their own names."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import Field

from topology.classic.configuration import ClassicConfiguration, ClientLayer
from topology.classic.destination import ANY_DESCENDANT, Destination, Kind, named
from topology.classic.plugins import DiscardingPlugin, Plugin, RedeliveryPlugin
from topology.classic.policy import RedeliveryPolicy
from topology.classic.strategies import SHARED_QUEUE, DiscardingStrategy, IndividualStrategy, SharedStrategy, Strategy
from topology.java_numbers import LONG_MAX, LONG_MIN
from topology.policy_settings import RedeliveryPolicySection
from topology.section import Duration, Section

_EXPIRATION = Field(0, ge=LONG_MIN, le=LONG_MAX, description="ms a dead letter lives; 0 = for ever")


class TargetSection(Section):
    """Which destinations an entry is about: one of the four."""

    queue: str | None = Field(None, min_length=1, description="name or pattern of queues: * one word, > the rest")
    topic: str | None = Field(None, min_length=1, description="name or pattern of topics")
    temp_queue: bool = Field(default=False, description="all temporary queues")
    temp_topic: bool = Field(default=False, description="all temporary topics")

    @property
    def chosen(self) -> list[str]:
        """The names of those that are given."""
        given = {"queue": self.queue, "topic": self.topic, "tempQueue": self.temp_queue, "tempTopic": self.temp_topic}
        return [name for name, value in given.items() if value not in {None, False}]

    def destination(self) -> Destination:
        """The pattern.

        Raises:
            DestinationError: its name is empty.
        """
        if self.queue is not None:
            return named(Kind.QUEUE, self.queue)
        if self.topic is not None:
            return named(Kind.TOPIC, self.topic)
        return Destination(Kind.TEMP_QUEUE if self.temp_queue else Kind.TEMP_TOPIC, ANY_DESCENDANT)


class SharedStrategySection(Section):
    """``sharedDeadLetterStrategy``: one dead-letter queue for many destinations."""

    process_expired: bool = True
    process_non_persistent: bool = False
    expiration: int = _EXPIRATION
    enable_audit: bool = True
    max_audit_depth: int = Field(2048, ge=-(2**31), lt=2**31)
    max_producers_to_audit: int = Field(64, ge=-(2**31), lt=2**31)
    dead_letter_queue: TargetSection | None = Field(None, description="where they go; default queue ActiveMQ.DLQ")

    def value(self) -> SharedStrategy:
        """The strategy itself."""
        return SharedStrategy(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        target = self.dead_letter_queue
        queue = SHARED_QUEUE if target is None else target.destination()
        return self.model_dump(exclude={"dead_letter_queue"}) | {"dead_letter_queue": queue}


class IndividualStrategySection(Section):
    """``individualDeadLetterStrategy``: a dead-letter queue or topic for each destination."""

    process_expired: bool = True
    process_non_persistent: bool = False
    expiration: int = _EXPIRATION
    enable_audit: bool = True
    max_audit_depth: int = Field(2048, ge=-(2**31), lt=2**31)
    max_producers_to_audit: int = Field(64, ge=-(2**31), lt=2**31)
    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str | None = None
    topic_suffix: str | None = None
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = Field(
        default=False, description="of a topic: a dead-letter topic for each group"
    )

    def value(self) -> IndividualStrategy:
        """The strategy itself."""
        return IndividualStrategy(**self.model_dump())


class DiscardingStrategySection(SharedStrategySection):
    """``discarding``: nothing becomes a dead letter; what would have is counted."""

    def value(self) -> DiscardingStrategy:
        """The strategy itself."""
        return DiscardingStrategy(**self._arguments())


class StrategySection(Section):
    """``deadLetterStrategy`` of a policy entry: one of the three."""

    shared_dead_letter_strategy: SharedStrategySection | None = None
    individual_dead_letter_strategy: IndividualStrategySection | None = None
    discarding: DiscardingStrategySection | None = None

    def value(self) -> Strategy | None:
        """The strategy itself, ``None`` if there is none."""
        for section in (self.shared_dead_letter_strategy, self.individual_dead_letter_strategy, self.discarding):
            if section is not None:
                return section.value()
        return None


class DefaultPolicySection(Section):
    """``defaultEntry``: for destinations that no entry is about."""

    dead_letter_strategy: StrategySection | None = None


class MapEntrySection(TargetSection):
    """One entry of ``policyEntries``; nothing is inherited from others."""

    dead_letter_strategy: StrategySection | None = None


class PolicyOfTargetSection(RedeliveryPolicySection, TargetSection):
    """A redelivery policy for certain destinations."""


class RedeliveryMapSection(Section):
    """``redeliveryPolicyMap``: policies by destination."""

    redelivery_policy_entries: tuple[PolicyOfTargetSection, ...] = ()
    default_entry: RedeliveryPolicySection | None = Field(None, description="for destinations without an entry")

    def entries(self) -> tuple[tuple[Destination, RedeliveryPolicy], ...]:
        """The policies with their patterns."""
        return tuple((entry.destination(), entry.value()) for entry in self.redelivery_policy_entries)

    def default(self) -> RedeliveryPolicy | None:
        """The default entry's policy."""
        return None if self.default_entry is None else self.default_entry.value()


class RedeliveryPluginSection(Section):
    """``redeliveryPlugin``: redelivery by the broker."""

    fallback_to_dead_letter: bool = Field(default=True, description="without a policy: dead-letter; false drops")
    send_to_dlq_if_max_retries_exceeded: bool = Field(default=True, description="false drops after the last attempt")
    redelivery_policy_map: RedeliveryMapSection = RedeliveryMapSection()

    def value(self) -> RedeliveryPlugin:
        """The plugin itself."""
        return RedeliveryPlugin(
            entries=self.redelivery_policy_map.entries(),
            default_entry=self.redelivery_policy_map.default(),
            fallback_to_dead_letter=self.fallback_to_dead_letter,
            send_to_dlq_if_max_retries_exceeded=self.send_to_dlq_if_max_retries_exceeded,
        )


class DiscardingPluginSection(Section):
    """``discardingDLQBrokerPlugin``: drops dead letters by name. By default it drops all of them."""

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: str | None = Field(None, description="regular expressions for whole names, parted by blanks")
    report_interval: int = Field(1000, ge=-(2**31), lt=2**31, description="after how many a line is logged; 0 = never")

    def value(self) -> DiscardingPlugin:
        """The plugin itself."""
        return DiscardingPlugin(**self.model_dump())


class PluginSection(Section):
    """One item of ``plugins``: one of the two."""

    redelivery_plugin: RedeliveryPluginSection | None = None
    discarding_plugin: DiscardingPluginSection | None = Field(None, alias="discardingDLQBrokerPlugin")

    def value(self) -> Plugin:
        """The plugin itself."""
        if self.redelivery_plugin is not None:
            return self.redelivery_plugin.value()
        return (self.discarding_plugin or DiscardingPluginSection()).value()


class ClassicSection(Section):
    """``activemq``: Classic's configuration, the client's layers first, then the broker's."""

    redelivery_policy: RedeliveryPolicySection | None = Field(None, description="the client's, for all destinations")
    redelivery_policy_map: RedeliveryMapSection = Field(
        RedeliveryMapSection(), description="the client's, by destination"
    )
    plugins: tuple[PluginSection, ...] = Field((), description="as listed in the broker; the last one acts first")
    policy_entries: tuple[MapEntrySection, ...] = Field((), description="dead-letter strategies by destination")
    default_entry: DefaultPolicySection | None = Field(None, description="for destinations without an entry")
    maximum_handler_delay: Duration | None = Field(
        None, description="longest delay a handler may ask for; absent = it may not ask"
    )

    def value(self) -> ClassicConfiguration:
        """The configuration itself.

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

    @property
    def maximum_handler_delay_ms(self) -> int | None:
        """The longest delay a handler may ask for."""
        longest = self.maximum_handler_delay
        return None if longest is None else longest // timedelta(milliseconds=1)
