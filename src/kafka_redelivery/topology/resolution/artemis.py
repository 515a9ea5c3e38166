"""Resolves Artemis's address settings for one address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.artemis.repository import Resolved, SettingsRepository, address_of
from kafka_redelivery.topology.faults import TopologyFault, warning
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry
from kafka_redelivery.topology.topics.naming import kafka_topic

DEFAULT_PREFIX = "DLQ."
"""The prefix of the dead-letter topic if Artemis would drop dead letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtemisResolution:
    """The settings that apply to an address, and the policy entry that follows from them."""

    address: str
    resolved: Resolved
    entry: PolicyEntry
    warnings: tuple[TopologyFault, ...]


@dataclass(frozen=True, slots=True)
class _Target:
    """A topic for dead letters or expired records; ``lost`` is the reason why Artemis would drop them."""

    topic: str
    shared: bool
    lost: str | None = None


def resolve_artemis(
    repository: SettingsRepository, address: str, topic: str, maximum_handler_delay: int | None = None
) -> ArtemisResolution:
    """Resolve one address.

    Args:
        repository: all address settings.
        address: the address in the broker; the queue of ``address::queue`` is ignored.
        topic: the Kafka topic of the address.
        maximum_handler_delay: see :class:`PolicyEntry`.
    """
    resolved = repository.resolve(address)
    settings = resolved.settings
    name = address_of(address)
    dead = _dead_letters(settings, name, topic)
    expired = _expired(settings, name, topic, dead)
    strategy = DeadLetterStrategy(
        kind=DeadLetterKind.SHARED if dead.shared else DeadLetterKind.INDIVIDUAL,
        topic=dead.topic,
        expiry_topic=None if expired.topic == dead.topic else expired.topic,
        enable_audit=False,
    )
    return ArtemisResolution(
        address=address,
        resolved=resolved,
        entry=PolicyEntry(
            redelivery_policy=settings,
            dead_letter_strategy=strategy,
            maximum_handler_delay=maximum_handler_delay,
        ),
        warnings=tuple(_warnings(resolved, topic, dead, expired)),
    )


def _dead_letters(settings: AddressSettings, address: str, topic: str) -> _Target:
    """Return the dead-letter topic: one per address with auto-created queues, else one that addresses share."""
    target = settings.dead_letter_address
    fallback = kafka_topic(f"{DEFAULT_PREFIX}{topic}")
    if not target:
        return _Target(fallback, shared=False, lost="it has no dead-letter-address")
    if not settings.auto_create_dead_letter_resources:
        found = kafka_topic(target)
        if found == topic:
            return _Target(fallback, shared=False, lost="it is its own dead-letter-address")
        return _Target(found, shared=True)
    name = settings.dead_letter_queue_prefix + address + settings.dead_letter_queue_suffix
    if kafka_topic(name) == topic:
        return _Target(fallback, shared=False, lost="prefix and suffix of its dead-letter queue are empty")
    return _Target(kafka_topic(name), shared=False)


def _expired(settings: AddressSettings, address: str, topic: str, dead: _Target) -> _Target:
    target = settings.expiry_address
    if not target:
        return _Target(dead.topic, shared=dead.shared, lost="it has no expiry-address")
    if settings.auto_create_expiry_resources:
        found = kafka_topic(settings.expiry_queue_prefix + address + settings.expiry_queue_suffix)
    else:
        found = kafka_topic(target)
    if found == topic:
        return _Target(dead.topic, shared=dead.shared, lost="it is its own expiry-address")
    return _Target(found, shared=not settings.auto_create_expiry_resources)


def _warnings(resolved: Resolved, topic: str, dead: _Target, expired: _Target) -> Iterator[TopologyFault]:
    settings = resolved.settings
    if dead.lost is not None and settings.max_delivery_attempts > 0:
        yield warning(
            topic,
            f"has records that Artemis would drop after their last attempt: {dead.lost}",
            f"nothing here: they go to {dead.topic}",
            "set dead-letter-address to choose another topic",
        )
    if expired.lost is not None:
        yield warning(
            topic,
            f"has records that Artemis would drop when they expire: {expired.lost}",
            f"nothing here: they go to {expired.topic}",
            "set expiry-address to choose another topic",
        )
    if resolved.tie:
        yield warning(
            topic,
            f"has two matches of the same rank ({', '.join(resolved.matches)}), ordered by their hash as in Artemis",
            "nothing",
            "make one of the two longer than the other",
        )
    for written in (settings.dead_letter_address, settings.expiry_address):
        if written and kafka_topic(written) != written:
            yield warning(
                topic,
                f"names {written}, which Kafka does not allow as a name",
                f"nothing; the topic is {kafka_topic(written)}",
                "choose a name of letters, digits, '.', '_' and '-'",
            )
