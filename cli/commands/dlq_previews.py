"""Previews of `redelivery dlq` from the index. Where there is none that can tell, the command reads all letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_redelivery.cli.commands.dlq_listing import can_index, refreshed_index
from kafka_redelivery.cli.output import stderr
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.redrive.letter import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_redelivery.consumers.redrive.creation import Preview
    from kafka_redelivery.consumers.redrive.purge import Removable
    from kafka_redelivery.transport.protocols import Partition


class QuickPreview(NamedTuple):
    """How many letters a job would send."""

    preview: Preview
    ends: Mapping[Partition, int]
    """The ends of the partitions before the index was brought up to date. Letters that died since may be in it."""


def quick_preview(settings: Settings, wanted: Selection, options: JobOptions) -> QuickPreview | None:
    """Return what a job would send; ``None`` if the index cannot tell.

    Raises:
        RedriveError: a target is refused or does not exist.
        TransportError: Kafka does not answer or denies access.
    """
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.consumers.errors import IndexUnusableError

    if not can_index(settings):
        return None
    from kafka_redelivery.consumers.index.previewing import indexed_preview
    from kafka_redelivery.consumers.redrive.ledger import letter_ends
    from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin

    topics = ClusterAdmin(settings.kafka).partition_counts()
    ends = letter_ends(settings, topics)
    try:
        with refreshed_index(settings, options.group, None) as index:
            found = indexed_preview(index, settings, wanted, options, topics, wall_clock_ms())
            return None if found is None else QuickPreview(found, ends)
    except IndexUnusableError as error:
        _tell(error)
        return None


def quick_removable(settings: Settings) -> dict[Partition, Removable] | None:
    """Return what `purge` would remove; ``None`` if the index cannot tell.

    Raises:
        RedriveError: there is no dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """
    from kafka_redelivery.consumers.errors import IndexUnusableError

    if not can_index(settings):
        return None
    from kafka_redelivery.consumers.index.previewing import indexed_removable
    from kafka_redelivery.consumers.redrive.ledger import letter_ends
    from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin

    ends = letter_ends(settings, ClusterAdmin(settings.kafka).partition_counts())
    try:
        with refreshed_index(settings, settings.group, None) as index:
            return indexed_removable(index, settings.group, ends)
    except IndexUnusableError as error:
        _tell(error)
        return None


def _tell(error: Exception) -> None:
    stderr().print(f"without an index all dead letters are read: {error}")
