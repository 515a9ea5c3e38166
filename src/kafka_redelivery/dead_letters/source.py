"""Whose dead letters are meant: those of a configuration of ours, or those of one topic of another system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kafka_redelivery.topology.config.settings import DeadLettersSection, Settings, SourceSection
from kafka_redelivery.topology.policy.failure_details import FailureDetails
from kafka_redelivery.topology.topics.naming import Naming

_REDRIVE = "{group}.redelivery"


@dataclass(frozen=True, slots=True)
class OtherSystem:
    """One dead-letter topic of another system, which has no configuration. There are no policies.

    The name of the topic takes the place of the group: jobs and actions are in ``{topic}.redelivery.jobs`` and
    ``{topic}.redelivery.actions``.
    """

    group: str
    """The topic."""

    kafka: Mapping[str, str | int | float | bool]
    """The settings of the Kafka clients."""

    mapping: Mapping[str, str] = field(default_factory=dict)
    """Which header has what, as of :func:`dead_letters.foreign.letter.foreign_letter`, if the system is not known."""

    sources: tuple[SourceSection, ...] = ()
    failure_details: FailureDetails = FailureDetails.FULL
    dead_letters: DeadLettersSection = field(default_factory=DeadLettersSection)
    journal: bool = False

    @property
    def dead_letter_topic(self) -> str:
        """The topic with the dead letters."""
        return self.group

    def naming(self) -> Naming:
        """Return the names of the topics that sending letters again needs."""
        return Naming(group=self.group, redrive=_REDRIVE)


LetterSource: TypeAlias = Settings | OtherSystem
"""Either has what reading letters takes: group, Kafka, names of topics, and what may be shown."""
