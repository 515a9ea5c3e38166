"""The plan of a group's sweepers: the dead-letter topics to sweep, and where expired dead letters go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_redelivery.topology.config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The dead-letter topics of a group, and the expiry topics of its sources."""

    group: str
    topics: tuple[str, ...]
    """All dead-letter and expiry topics of the group, sorted."""

    expiring: bool
    """Whether a dead letter can expire under the current policies."""

    expiries: Mapping[str, str | None]
    """The expiry topic of each source; ``None`` = its expired dead letters are deleted."""

    @property
    def moving(self) -> bool:
        """Whether any expired dead letters are moved."""
        return any(topic is not None for topic in self.expiries.values())

    def expiry_topic(self, dead_letter_topic: str, source: str) -> str | None:
        """Return the expiry topic of an expired dead letter; ``None`` if it is deleted.

        Args:
            dead_letter_topic: the topic that it is in. A dead letter that expires in its expiry topic is deleted.
            source: the source topic in its headers. If that source is not configured, the dead letter goes to the
                first expiry topic there is, because it must not be lost.
        """
        first = next((topic for topic in self.expiries.values() if topic is not None), None)
        topic = self.expiries.get(source, first)
        return None if topic == dead_letter_topic else topic


def sweeper_group(group: str) -> str:
    """Return the consumer group of a group's sweepers."""
    return f"{group}.sweeper"


def sweep_plan(settings: Settings) -> SweepPlan:
    """Return the sweep plan of a configuration."""
    naming = settings.naming()
    strategies = {topic: entry.dead_letter_strategy for topic, entry in settings.entries().items()}
    return SweepPlan(
        group=settings.group,
        topics=tuple(
            sorted(
                {
                    naming.dead_letter_topic(template, source)
                    for source, strategy in strategies.items()
                    for template in strategy.templates
                }
            )
        ),
        expiring=any(strategy.templates and strategy.expiration > 0 for strategy in strategies.values()),
        expiries={
            source: None if strategy.expiry_topic is None else naming.dead_letter_topic(strategy.expiry_topic, source)
            for source, strategy in strategies.items()
            if strategy.templates
        },
    )
