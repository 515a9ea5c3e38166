"""Whose dead letters are meant: those of a configuration of ours, or those of one topic of another system."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.foreign.systems import ANY, Recognition
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import DeadLettersSection, Settings, SourceSection
from kafka_redelivery.topology.policy.decision import FailureDetails
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec
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

    recognition: Recognition = ANY

    sources: tuple[SourceSection, ...] = ()
    failure_details: FailureDetails = FailureDetails.FULL
    dead_letters: DeadLettersSection = field(default_factory=DeadLettersSection)
    journal: bool = False

    @property
    def dead_letter_topic(self) -> str:
        """The topic with the dead letters."""
        return self.group

    def options(self) -> str:
        """Return the options of a command that say what :attr:`recognition` says."""
        fields = "".join(f" --map {shlex.quote(f'{name}={header}')}" for name, header in self.recognition.mapping)
        return fields + (f" --system {self.recognition.system}" if self.recognition.system else "")

    def naming(self) -> Naming:
        """Return the names of the topics that sending letters again needs."""
        return Naming(group=self.group, redrive=_REDRIVE)


LetterSource: TypeAlias = Settings | OtherSystem
"""Either has what reading letters takes: group, Kafka, names of topics, and what may be shown."""


def noting_systems(settings: LetterSource, options: JobOptions) -> JobOptions:
    """Return the options of a new job with how letters of other systems are recognised, so that others do it alike."""
    if not isinstance(settings, OtherSystem) or options.discard:
        return options
    said = settings.recognition
    return replace(options, mapping=dict(said.mapping), system=said.system)


def with_systems_of(settings: LetterSource, spec: JobSpec) -> LetterSource:
    """Return settings that recognise letters as the author of a job did, if the job says how.

    Raises:
        RedriveError: these settings say something else.
    """
    if not isinstance(settings, OtherSystem) or spec.options.mapping is None:
        return settings
    own = Recognition(tuple(spec.options.mapping.items()), spec.options.system)
    said, found = settings.recognition, replace(settings, recognition=own)
    if said != ANY and (dict(said.mapping), said.system) != (spec.options.mapping, own.system):
        raise RedriveError(
            f"job {spec.job} was created with{found.options() or ' neither --map nor --system'}, and keeps to that: "
            "leave --map and --system out of the command"
        )
    return found


def refuse_group(settings: LetterSource, group: str) -> None:
    """Refuse to ask for a group of ours among another system's letters.

    Raises:
        RedriveError: it is asked for.
    """
    if isinstance(settings, OtherSystem) and group != settings.group:
        raise RedriveError("--of-group is for our own dead letters; select those of a group with --header")


def letter_topics(settings: LetterSource) -> Collection[str]:
    """Return the dead-letter topics of a configuration, expiry topics included: records also expire into those."""
    return [settings.dead_letter_topic] if isinstance(settings, OtherSystem) else sweep_plan(settings).topics
