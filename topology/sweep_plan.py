"""What a group's sweepers have to do: which topics, and where what they remove is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topology.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The dead-letter topics of a group, and the expiry topics of its sources."""

    group: str
    topics: tuple[str, ...]
    """All that dead letters of the group can land in, in order."""

    expiring: bool
    """Whether any dead letter can expire by the policies as they are now."""

    expiries: Mapping[str, str | None]
    """Source topic -> where its expired dead letters are moved; ``None`` = nowhere."""

    @property
    def moving(self) -> bool:
        """Whether anything is moved at all."""
        return any(topic is not None for topic in self.expiries.values())

    def expiry_topic(self, dead_letter_topic: str, source: str) -> str | None:
        """Where an expired dead letter is moved, ``None`` if it is just removed.

        Args:
            dead_letter_topic: where it is. What expires in an expiry topic is not moved there again.
            source: the source topic in its headers; of one that is not configured it is moved where those of the
                first source with such a topic are: rather kept in the wrong place than lost.
        """
        first = next((topic for topic in self.expiries.values() if topic is not None), None)
        topic = self.expiries.get(source, first)
        return None if topic == dead_letter_topic else topic


def sweeper_group(group: str) -> str:
    """The consumer group of a group's sweepers."""
    return f"{group}.sweeper"


def sweep_plan(settings: Settings) -> SweepPlan:
    """What is to be swept by a configuration."""
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
