"""All that ActiveMQ Classic knows about redelivery and dead letters, by layer.

A failing message meets, in this order: the client's policy (its map for the destination, else that of the
connection, which the connection URI may set), then the broker's plugins from the last listed to the first, then
the dead-letter strategy of the destination's policy entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from topology.classic.choice import NO_CHOICE, Choice, choose
from topology.classic.destination import Destination
from topology.classic.plugins import DiscardingPlugin, Plugin, RedeliveryPlugin
from topology.classic.policy import RedeliveryPolicy
from topology.classic.strategies import DEFAULT_STRATEGY, Strategy

DEFAULT_ENTRY = "(default entry)"
"""What stands for a pattern where a map's default entry decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLayer:
    """What the client sets itself; ``policy`` is the connection's, ``entries`` its ``redeliveryPolicyMap``."""

    policy: RedeliveryPolicy | None = None
    entries: tuple[tuple[Destination, RedeliveryPolicy], ...] = ()
    default_entry: RedeliveryPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConfiguration:
    """One configuration. A policy entry without a strategy has ``None``: it inherits nothing."""

    policy_entries: tuple[tuple[Destination, Strategy | None], ...] = ()
    default_entry: Strategy | None = None
    has_default_entry: bool = False
    plugins: tuple[Plugin, ...] = ()
    client: ClientLayer = field(default_factory=ClientLayer)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyChoice:
    """The dead-letter strategy of a destination, and the policy entry it comes from (``None`` = there is none)."""

    entry: str | None
    strategy: Strategy
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayer:
    """What the plugins do with a destination's dead letters.

    ``entry`` is the pattern of the redelivery policy; ``policy`` is that policy, asked or not;
    ``effective`` whether it is asked at all. ``dropped_by`` is the property that drops poison, and
    ``expired_dropped_by`` the one that drops expired messages, which no redelivery plugin holds up. The report
    intervals are those of the discarding plugins that drop either; 0 = there is none.
    """

    entry: str | None = None
    policy: RedeliveryPolicy | None = None
    choice: Choice = NO_CHOICE
    matched: tuple[Destination, ...] = ()
    """The patterns of its redelivery policies that apply, the one that decides first."""

    present: bool = False
    effective: bool = False
    dropped_by: str | None = None
    expired_dropped_by: str | None = None
    poison_report_interval: int = 0
    expired_report_interval: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChoice:
    """The client's policy for a destination, and where it comes from."""

    layer: str
    policy: RedeliveryPolicy
    choice: Choice = NO_CHOICE
    given: bool = True
    """Whether the configuration says anything about the client at all."""


def strategy_for(configuration: ClassicConfiguration, destination: Destination) -> StrategyChoice:
    """The dead-letter strategy of a destination."""
    choice = choose([pattern for pattern, _ in configuration.policy_entries], destination)
    if choice.winner is not None:
        pattern, strategy = configuration.policy_entries[choice.winner]
        return StrategyChoice(entry=str(pattern), strategy=strategy or DEFAULT_STRATEGY, choice=choice)
    entry = DEFAULT_ENTRY if configuration.has_default_entry else None
    return StrategyChoice(entry=entry, strategy=configuration.default_entry or DEFAULT_STRATEGY, choice=choice)


def client_for(configuration: ClassicConfiguration, destination: Destination) -> ClientChoice:
    """The client's policy for a destination: from its map, else the connection's, else the default."""
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
    """What the plugins do with a destination's dead letters.

    Source: ``BrokerService.addInterceptors`` wraps each plugin around those before it;
    ``RedeliveryPlugin`` and ``DiscardingDLQBroker`` for what each does.

    Raises:
        MatchError: a pattern of ``dropOnly`` is no regular expression.
    """
    found = _Found()
    for plugin in reversed(configuration.plugins):
        if isinstance(plugin, DiscardingPlugin):
            found.discard(plugin.drops(destination), plugin.report_interval)
        else:
            _redelivered(plugin, destination, found)
    return BrokerLayer(
        entry=found.entry,
        policy=found.policy,
        choice=found.choice,
        matched=found.matched,
        present=found.present,
        effective=found.effective,
        dropped_by=found.poison,
        expired_dropped_by=found.expired,
        poison_report_interval=found.poison_interval,
        expired_report_interval=found.expired_interval,
    )


@dataclass(slots=True)
class _Found:
    """What is known on the way from the outermost plugin inwards."""

    entry: str | None = None
    policy: RedeliveryPolicy | None = None
    choice: Choice = NO_CHOICE
    matched: tuple[Destination, ...] = ()
    present: bool = False
    effective: bool = False
    poison: str | None = None
    expired: str | None = None
    poison_interval: int = 0
    expired_interval: int = 0

    def discard(self, reason: str | None, interval: int) -> None:
        """A discarding plugin drops what comes to it, as far as none before it has."""
        if self.expired is None and reason is not None:
            self.expired, self.expired_interval = reason, interval
        if self.poison is None and reason is not None:
            self.poison, self.poison_interval = reason, interval


def _redelivered(plugin: RedeliveryPlugin, destination: Destination, found: _Found) -> None:
    if found.present:
        return  # of several redelivery plugins the outermost one has redelivered already
    found.present = True
    found.choice = plugin.choice(destination)
    found.matched = tuple(plugin.entries[index][0] for index in found.choice.ranked)
    found.policy = plugin.policy(found.choice)
    if found.choice.winner is not None:
        found.entry = str(plugin.entries[found.choice.winner][0])
    elif found.policy is not None:
        found.entry = DEFAULT_ENTRY
    if found.poison is not None:
        return  # a discarding plugin listed after it has dropped the message before
    found.effective = found.policy is not None
    if found.policy is None and not plugin.fallback_to_dead_letter:
        found.poison = "fallbackToDeadLetter"
    elif found.policy is not None and not plugin.send_to_dlq_if_max_retries_exceeded:
        found.poison = "sendToDlqIfMaxRetriesExceeded"
