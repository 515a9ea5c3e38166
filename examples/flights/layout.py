"""The names and the policy of the demo's group, from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from examples.flights.wire import CONFIG, FLIGHTS
from kafka_redelivery.topology.config.loading import load_settings


@dataclass(frozen=True, slots=True)
class Layout:
    """The group's topics, and the number of redeliveries."""

    group: str
    tiers: tuple[str, ...]
    """The tier of each redelivery, in order."""

    ready: str
    dead_letters: str
    journal: str

    @property
    def redeliveries(self) -> int:
        """Redeliveries of a record before it is dead-lettered."""
        return len(self.tiers)


def layout() -> Layout:
    """Read the configuration.

    Raises:
        ConfigurationError: it has faults.
    """
    settings = load_settings(CONFIG.read_text(encoding="utf-8"), name=str(CONFIG))
    entry = settings.entry(FLIGHTS)
    naming = settings.naming()
    policy = entry.redelivery_policy
    redeliveries = None if policy.max_deliveries is None else policy.max_deliveries - 1
    return Layout(
        group=settings.group,
        tiers=tuple(naming.tier_topic(delay) for delay in islice(policy.delays_ms(), redeliveries)),
        ready=naming.ready_topic(FLIGHTS),
        dead_letters=naming.dead_letter_topic(entry.dead_letter_strategy.topic, FLIGHTS),
        journal=naming.journal_topic(),
    )
