"""Which rules apply to the letters that are sent: ours, or those for dead letters of another system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kafka_redelivery.consumers.redrive.copies import Copies, Targets, refuse_target
from kafka_redelivery.consumers.redrive.foreign_copies import ForeignCopies, ForeignTargets, refuse_foreign_options
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions

AnyTargets: TypeAlias = Targets | ForeignTargets


def targets_of(settings: Settings, options: JobOptions) -> AnyTargets:
    """Return the topics that letters are sent to."""
    if isinstance(settings, ForeignTopic):
        return ForeignTargets(settings, options)
    return Targets(settings, options)


def copies(settings: Settings, options: JobOptions, partition_counts: Mapping[str, int]) -> Copies | ForeignCopies:
    """Return what makes the records of a job."""
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
    else:
        refuse_target(settings, options)
