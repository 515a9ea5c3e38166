"""The names and the policy of the demo's group, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
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
    blocking: bool = False
    """Whether a flight that failed keeps its place, and the later flights of its plane wait for it."""

    @property
    def redeliveries(self) -> int:
        """Redeliveries of a record before it is dead-lettered."""
        return len(self.tiers)


def layout(settings: Sequence[str] = ()) -> Layout:
    """Read the configuration.

    Args:
        settings: in addition to the file.

    Raises:
        ConfigurationError: it has faults.
    """
    found = load_settings(CONFIG.read_text(encoding="utf-8"), name=str(CONFIG), overrides=settings)
    entry, handler = found.entry(FLIGHTS), found.handler_of(FLIGHTS)
    naming = found.naming()
    policy = entry.redelivery_policy
    redeliveries = None if policy.max_deliveries is None else policy.max_deliveries - 1
    return Layout(
        group=found.group,
        tiers=tuple(naming.tier_topic(delay) for delay in islice(policy.delays_ms(), redeliveries)),
        ready=naming.ready_topic(FLIGHTS),
        dead_letters=naming.dead_letter_topic(entry.dead_letter_strategy.topic, FLIGHTS),
        journal=naming.journal_topic(),
        blocking=handler is not None and not handler.non_blocking_redelivery,
    )
