"""Which rules apply to the letters that are sent: ours, or those for dead letters of another system."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import Copies, Targets, refuse_target
from kafka_redelivery.dead_letters.foreign_copies import ForeignCopies, ForeignTargets, refuse_foreign_options
from kafka_redelivery.topology.cluster.sweep_plan import dead_letter_topics
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec

AnyTargets: TypeAlias = Targets | ForeignTargets


def refuse_group(settings: Settings, group: str) -> None:
    """Refuse to ask for a group of ours among another system's letters.

    Raises:
        RedriveError: it is asked for.
    """
    if isinstance(settings, ForeignTopic) and group != settings.group:
        raise RedriveError("--of-group is for our own dead letters; select those of a group with --header")


def letter_topics(settings: Settings) -> Collection[str]:
    """Return the dead-letter topics of a configuration."""
    return [settings.dead_letter_topic] if isinstance(settings, ForeignTopic) else dead_letter_topics(settings)


def targets_of(settings: Settings, options: JobOptions) -> AnyTargets:
    """Return the topics that letters are sent to."""
    if isinstance(settings, ForeignTopic):
        return ForeignTargets(settings, options)
    return Targets(settings, options)


def copies(
    settings: Settings, group: str, spec: JobSpec, partition_counts: Mapping[str, int]
) -> Copies | ForeignCopies:
    """Return what makes the records of a job.

    Args:
        settings: how to reach Kafka, and the names of topics.
        group: the group whose jobs were read.
        spec: the job. Each user with Write on the topic can have written it, so it is checked like a new one.
        partition_counts: the topics of the cluster.

    Raises:
        RedriveError: no command creates the job with this configuration.
    """
    options = spec.options
    others = {each.topic for each in spec.slices}.difference(letter_topics(settings))
    problem = f"{', '.join(sorted(others))} is no dead-letter topic of the configuration" if others else ""
    try:
        refuse_options(settings, options)
    except RedriveError as error:
        problem = str(error)
    if options.group != group:
        problem = f"it is for the dead letters of group {options.group}"
    if problem:
        raise RedriveError(
            f"job {spec.job} is not sent: {problem}. It was created with another configuration, or forged: "
            "`redelivery dlq jobs` says by whom, `redelivery dlq cancel` frees its letters"
        )
    if isinstance(settings, ForeignTopic):
        return ForeignCopies(settings, options, partition_counts)
    return Copies(settings, options, partition_counts)


def refuse_options(settings: Settings, options: JobOptions) -> None:
    """Refuse options that exclude each other, and targets that a job must not write to.

    Raises:
        RedriveError: an option is refused.
    """
    if isinstance(settings, ForeignTopic):
        refuse_foreign_options(settings, options)
    elif options.allow_empty:
        raise RedriveError("--allow-empty is for dead letters of other systems: ours have the record that was read")
    else:
        refuse_target(settings, options)
