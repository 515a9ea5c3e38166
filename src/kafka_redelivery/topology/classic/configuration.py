"""ActiveMQ Classic's configuration of redelivery and dead letters, by layer.

A failed message passes through these layers, in this order:

1. the client's redelivery policy: that of its map for the destination, else that of the connection, which the
   connection URI may set;
2. the broker's plugins, from the last one listed to the first;
3. the dead-letter strategy of the destination's policy entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kafka_redelivery.topology.classic.choice import NO_CHOICE, Choice, choose
from kafka_redelivery.topology.classic.destination import Destination
from kafka_redelivery.topology.classic.plugins import DiscardingPlugin, Plugin, RedeliveryPlugin
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.classic.strategies import DEFAULT_STRATEGY, Strategy

DEFAULT_ENTRY = "(default entry)"
"""The name of a map's default entry, in place of a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLayer:
    """The client's policies: ``policy`` is the connection's, and ``entries`` its ``redeliveryPolicyMap``."""

    policy: RedeliveryPolicy | None = None
    entries: tuple[tuple[Destination, RedeliveryPolicy], ...] = ()
    default_entry: RedeliveryPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConfiguration:
    """A configuration of client and broker. A policy entry without a strategy has ``None`` and inherits nothing."""

    policy_entries: tuple[tuple[Destination, Strategy | None], ...] = ()
    default_entry: Strategy | None = None
    has_default_entry: bool = False
    plugins: tuple[Plugin, ...] = ()
    client: ClientLayer = field(default_factory=ClientLayer)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyChoice:
    """The dead-letter strategy of a destination, and the policy entry that sets it (``None`` = no entry)."""

    entry: str | None
    strategy: Strategy
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayer:
    """What the broker's plugins do with the dead letters of a destination.

    ``present`` is whether there is a redelivery plugin; ``policy`` is its policy for the destination and ``entry`` the
    pattern of that policy. ``effective`` is whether the policy is applied: a discarding plugin may drop the message
    before. ``dropped_by`` is the property that drops messages that failed for good, and ``expired_dropped_by`` the one
    that drops expired messages, which a redelivery plugin never delays. The report intervals are those of the
    discarding plugins that drop them; 0 = none.
    """

    entry: str | None = None
    policy: RedeliveryPolicy | None = None
    choice: Choice = NO_CHOICE
    matched: tuple[Destination, ...] = ()
    """The patterns of all redelivery policies that match; the one that decides is the first."""

    present: bool = False
    effective: bool = False
    dropped_by: str | None = None
    expired_dropped_by: str | None = None
    poison_report_interval: int = 0
    expired_report_interval: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChoice:
    """The client's policy for a destination, and the layer that sets it."""

    layer: str
    policy: RedeliveryPolicy
    choice: Choice = NO_CHOICE
    given: bool = True
    """Whether the configuration sets the policy, rather than Classic's default."""


def strategy_for(configuration: ClassicConfiguration, destination: Destination) -> StrategyChoice:
    """Return the dead-letter strategy of a destination."""
    choice = choose([pattern for pattern, _ in configuration.policy_entries], destination)
    if choice.winner is not None:
        pattern, strategy = configuration.policy_entries[choice.winner]
        return StrategyChoice(entry=str(pattern), strategy=strategy or DEFAULT_STRATEGY, choice=choice)
    entry = DEFAULT_ENTRY if configuration.has_default_entry else None
    return StrategyChoice(entry=entry, strategy=configuration.default_entry or DEFAULT_STRATEGY, choice=choice)


def client_for(configuration: ClassicConfiguration, destination: Destination) -> ClientChoice:
    """Return the client's policy for a destination: from its map, else the connection's, else the default."""
    client = configuration.client
    choice = choose([pattern for pattern, _ in client.entries], destination)
    if choice.winner is not None:
        return ClientChoice(layer="redeliveryPolicyMap", policy=client.entries[choice.winner][1], choice=choice)
    if client.default_entry is not None:
        return ClientChoice(layer="redeliveryPolicyMap", policy=client.default_entry, choice=choice)
    if client.policy is not None:
        return ClientChoice(layer="redeliveryPolicy", policy=client.policy, choice=choice)
    return ClientChoice(layer="default", policy=RedeliveryPolicy(), choice=choice, given=False)


def broker_for(configuration: ClassicConfiguration, destination: Destination) -> BrokerLayer:
    """Return what the broker's plugins do with the dead letters of a destination.

    Source: ``BrokerService.addInterceptors`` wraps each plugin around those before it; ``RedeliveryPlugin`` and
    ``DiscardingDLQBroker`` are the plugins.

    Raises:
        MatchError: a pattern of ``dropOnly`` is not a regular expression.
    """
    layer = BrokerLayer()
    for plugin in reversed(configuration.plugins):
        if isinstance(plugin, DiscardingPlugin):
            layer = _discarded(layer, plugin.drops(destination), plugin.report_interval)
        elif not layer.present:  # of several redelivery plugins, only the outermost one redelivers
            layer = _redelivered(layer, plugin, destination)
    return layer


def _discarded(layer: BrokerLayer, reason: str | None, interval: int) -> BrokerLayer:
    """Apply a discarding plugin; it only drops messages that no plugin before it has dropped."""
    if reason is not None and layer.expired_dropped_by is None:
        layer = replace(layer, expired_dropped_by=reason, expired_report_interval=interval)
    if reason is not None and layer.dropped_by is None:
        layer = replace(layer, dropped_by=reason, poison_report_interval=interval)
    return layer


def _redelivered(layer: BrokerLayer, plugin: RedeliveryPlugin, destination: Destination) -> BrokerLayer:
    choice = plugin.choice(destination)
    policy = plugin.policy(choice)
    default = None if policy is None else DEFAULT_ENTRY
    layer = replace(
        layer,
        present=True,
        entry=default if choice.winner is None else str(plugin.entries[choice.winner][0]),
        policy=policy,
        choice=choice,
        matched=tuple(plugin.entries[index][0] for index in choice.ranked),
    )
    if layer.dropped_by is not None:
        return layer  # a discarding plugin listed after this one has dropped the message already
    if policy is None:
        return replace(layer, dropped_by=None if plugin.fallback_to_dead_letter else "fallbackToDeadLetter")
    kept = plugin.send_to_dlq_if_max_retries_exceeded
    return replace(layer, effective=True, dropped_by=None if kept else "sendToDlqIfMaxRetriesExceeded")
