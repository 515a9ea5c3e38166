"""Explains what happens to a record that fails, as plain data for ``redelivery explain``."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, assert_never

from pydantic.alias_generators import to_camel

from kafka_redelivery.topology.artemis.address_settings import SETTING_NAMES, AddressSettings
from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.classic.strategies import Strategy
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import DestinationError
from kafka_redelivery.topology.faults import TopologyFault, refusal
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry
from kafka_redelivery.topology.resolution.artemis import ArtemisResolution
from kafka_redelivery.topology.resolution.classic import ClassicResolution
from kafka_redelivery.topology.topics.naming import MAX_NAME
from kafka_redelivery.topology.topics.tiers import TierSet, tier_set

MAX_DELAYS = 12
"""The number of delays in an explanation."""

_MESSAGES = {
    "persistent": (True, False),
    "persistent_expired": (True, True),
    "nonpersistent": (False, False),
    "nonpersistent_expired": (False, True),
}
"""The kinds of message: whether it is persistent, and whether it has expired."""


def explain(settings: Settings, destination: str, *, sources_known: bool = True) -> dict[str, Any]:
    """Explain one destination.

    Args:
        settings: the configuration.
        destination: its name, with the prefix ``topic:`` for a topic.
        sources_known: whether the sources are the user's own and not stand-ins; sources share retry tiers.

    Raises:
        DestinationError: the name is empty or is not valid text.
    """
    topic = settings.topic_of(destination)
    if not topic or not _is_text(destination):
        raise DestinationError(destination, "needs a name that is not empty, in UTF-8")
    own = next((source.policy for source in settings.sources if source.topic == topic), None)
    resolution = settings.resolution(destination, topic) if own is None else None
    match resolution:
        case None:
            entry = (settings.policy_entry if own is None else own).value()
            facts = _simple(entry, topic, "policyEntry" if own is None else "sources.policy", settings)
        case ClassicResolution():
            entry = resolution.entry
            facts = _classic(resolution)
        case ArtemisResolution():
            entry = resolution.entry
            facts = _artemis(resolution)
        case _:
            assert_never(resolution)
    entries = [*settings.entries().values(), entry] if sources_known else [entry]
    names = _Names(settings, tier_set(entries), topic)
    warnings = () if resolution is None else resolution.warnings
    document = {"destination": destination, "topic": topic, **facts, **_redeliveries(entry, names)}
    document |= _dead_letters(entry, names)
    topics = dict.fromkeys(document[key] for key in ("topic", "dead_letter_topic", "expiry_topic"))
    warnings += tuple(_too_long(name) for name in topics if name is not None and len(name) > MAX_NAME)
    return document | {"warnings": [warning.document() for warning in warnings]}


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_long(name: str) -> TopologyFault:
    return refusal(
        name,
        f"is {len(name)} characters long; Kafka allows {MAX_NAME}",
        "no record can be written to it",
        "choose a shorter name, prefix or suffix",
    )


@dataclass(frozen=True, slots=True)
class _Names:
    settings: Settings
    tiers: TierSet
    topic: str

    def retry_topic(self, delay_ms: int) -> str | None:
        """Return the topic in which a record with this delay waits, ``None`` if it waits in no retry topic."""
        handler = self.settings.handler_of(self.topic)
        if delay_ms <= 0 or (handler is not None and not handler.non_blocking_redelivery):
            return None
        tier, naming = self.tiers.tier_for(delay_ms), self.settings.naming()
        return naming.mixed_topic() if tier is None else naming.tier_topic(tier)


def _redeliveries(entry: PolicyEntry, names: _Names) -> dict[str, Any]:
    policy = entry.redelivery_policy
    limit = policy.max_deliveries
    delays = list(islice(policy.delays_ms(), MAX_DELAYS))
    ranges = [list(policy.delay_range_ms(redelivery)) for redelivery in range(1, len(delays) + 1)]
    count = len(delays) if limit is None else max(0, min(len(delays), limit - 1))
    attempts = [
        {"redelivery": number, "delay_ms": max(0, delay), "delay_range_ms": limits, "tier": names.retry_topic(delay)}
        for number, (delay, limits) in enumerate(zip(delays[:count], ranges, strict=False), start=1)
    ]
    tiers = dict.fromkeys(attempt["tier"] for attempt in attempts if attempt["tier"] is not None)
    return {
        "max_deliveries": -1 if limit is None else limit,
        "delays_ms": delays,
        "delay_ranges_ms": ranges,
        "attempts": attempts,
        "tiers": list(tiers),
    }


def _dead_letters(entry: PolicyEntry, names: _Names) -> dict[str, Any]:
    strategy, naming = entry.dead_letter_strategy, names.settings.naming()
    kept = strategy.kind is not DeadLetterKind.DISCARDING
    topic = naming.dead_letter_topic(strategy.topic, names.topic)
    expiry = topic
    if strategy.expiry_topic is not None:
        expiry = naming.dead_letter_topic(strategy.expiry_topic, names.topic)
    return {
        "dead_letter_topic": topic if kept and strategy.process_poison else None,
        "expiry_topic": expiry if kept and strategy.process_expired else None,
        "dead_letter_expiration_ms": strategy.expiration,
    }


def _simple(entry: PolicyEntry, topic: str, layer: str, settings: Settings) -> dict[str, Any]:
    strategy, policy = entry.dead_letter_strategy, entry.redelivery_policy
    dead_letter = settings.naming().dead_letter_topic(strategy.topic, topic)
    return {
        "dialect": "classic",
        "layer": layer,
        "matched": [],
        "policy": policy_document(policy) if isinstance(policy, RedeliveryPolicy) else {},
        "dead_letter_strategy": {
            "kind": f"{strategy.kind.capitalize()}DeadLetterStrategy",
            "processExpired": strategy.process_expired,
            "processNonPersistent": strategy.process_non_persistent,
            "expiration": strategy.expiration,
            "dead_letter_destination": f"queue:{dead_letter}",
            "accepts": _accepted(strategy),
        },
    }


def _classic(resolution: ClassicResolution) -> dict[str, Any]:
    broker = resolution.broker
    return {
        "dialect": "classic",
        "layer": resolution.redelivery_layer,
        "matched": list(resolution.matched),
        "policy": policy_document(resolution.policy),
        "client_policy": _layer_document(resolution),
        "broker_redelivery_policy": None if broker.policy is None else policy_document(broker.policy),
        "broker_redelivery_entry": broker.entry,
        "policy_entry": resolution.strategy.entry,
        "dead_letter_strategy": {
            **strategy_document(resolution.strategy.strategy),
            "dead_letter_destination": str(resolution.dead_letter),
            "accepts": _accepted(resolution.strategy.strategy),
        },
        "discarded_by_plugin": broker.expired_dropped_by,
        "dropped_by": broker.dropped_by,
    }


def _layer_document(resolution: ClassicResolution) -> dict[str, Any] | None:
    policy = resolution.entry.redelivery_policy
    return policy_document(policy.client) if isinstance(policy, LayeredRedelivery) else None


def _artemis(resolution: ArtemisResolution) -> dict[str, Any]:
    return {
        "dialect": "artemis",
        "layer": "address-settings",
        "matched": list(resolution.resolved.matches),
        "policy": settings_document(resolution.resolved.settings),
        "dead_letter_strategy": None,
    }


def policy_document(policy: RedeliveryPolicy) -> dict[str, Any]:
    """Return a policy of Classic, by the names of its properties."""
    return {
        "maximumRedeliveries": policy.maximum_redeliveries,
        "initialRedeliveryDelay": policy.initial_redelivery_delay,
        "redeliveryDelay": policy.redelivery_delay,
        "maximumRedeliveryDelay": policy.maximum_redelivery_delay,
        "useExponentialBackOff": policy.use_exponential_back_off,
        "backOffMultiplier": _number(policy.back_off_multiplier),
        "useCollisionAvoidance": policy.use_collision_avoidance,
        "collisionAvoidancePercent": policy.collision_avoidance_percent,
        "collisionAvoidanceFactor": policy.collision_avoidance_factor,
        "preDispatchCheck": policy.pre_dispatch_check,
    }


def settings_document(settings: AddressSettings) -> dict[str, Any]:
    """Return address settings, by their names in ``broker.xml``."""
    found = {name: getattr(settings, field) for name, field in SETTING_NAMES.items()}
    return {name: _number(value) if isinstance(value, float) else value for name, value in found.items()}


def strategy_document(strategy: Strategy) -> dict[str, Any]:
    """Return a dead-letter strategy of Classic, by the names of its properties."""
    kind = type(strategy).__name__.removesuffix("Strategy")
    names = [each.name for each in fields(strategy) if each.name != "dead_letter_queue"]
    return {"kind": f"{kind}DeadLetterStrategy", **{to_camel(name): getattr(strategy, name) for name in names}}


def _accepted(strategy: Strategy | DeadLetterStrategy) -> dict[str, bool]:
    """Return for each kind of message whether it becomes a dead letter."""
    return {
        name: strategy.accepts(persistent=persistent, expired=expired)
        for name, (persistent, expired) in _MESSAGES.items()
    }


def _number(value: float) -> float | str:
    """Return a number for JSON, which has no NaN and no infinity: these become Java's words for them."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
