"""Previews of `redelivery dlq` from the index. Where there is none that can tell, the command reads all letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_redelivery.cli.commands.dlq_index import can_index, refreshed_index
from kafka_redelivery.cli.output import stderr
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kafka_redelivery.dead_letters.creation import Preview
    from kafka_redelivery.dead_letters.exporting import Exportable
    from kafka_redelivery.dead_letters.index.index import Index
    from kafka_redelivery.dead_letters.purge import Removable
    from kafka_redelivery.topology.redrive.topic_ids import TopicIds
    from kafka_redelivery.transport.protocols import Partition

_Answer = TypeVar("_Answer")


class _Topics(NamedTuple):
    """The topics before the index was brought up to date."""

    counts: Mapping[str, int]
    ids: TopicIds
    ends: dict[Partition, int]


class QuickPreview(NamedTuple):
    """How many letters a job would send."""

    preview: Preview
    ends: Mapping[Partition, int]
    """The ends of the partitions before the index was brought up to date. Letters that died since may be in it."""

    topics: TopicIds
    """The ids of the topics before that."""


def quick_preview(
    settings: Settings, wanted: Selection, options: JobOptions, folder: Path | None = None
) -> QuickPreview | None:
    """Return what a job would send, from the index in ``folder``; ``None`` if it cannot tell.

    Raises:
        RedriveError: a target is refused or does not exist.
        TransportError: Kafka does not answer or denies access.
    """

    def ask(index: Index, topics: _Topics) -> QuickPreview | None:
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.dead_letters.index.previewing import indexed_preview

        found = indexed_preview(index, settings, wanted, options, topics.counts, wall_clock_ms())
        return None if found is None else QuickPreview(found, topics.ends, topics.ids)

    return _asked(settings, options.group, folder, ask)


def quick_removable(settings: Settings, folder: Path | None = None) -> dict[Partition, Removable] | None:
    """Return what `purge` would remove, from the index in ``folder``; ``None`` if it cannot tell.

    Raises:
        RedriveError: there is no dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """

    def ask(index: Index, topics: _Topics) -> dict[Partition, Removable]:
        from kafka_redelivery.dead_letters.index.previewing import indexed_removable

        return indexed_removable(index, settings.group, topics.ends, topics.ids)

    return _asked(settings, settings.group, folder, ask)


def quick_exportable(
    settings: Settings, group: str, wanted: Selection, folder: Path | None = None
) -> Exportable | None:
    """Return what `export` would print, from the index in ``folder``; ``None`` if it cannot tell.

    Raises:
        RedriveError: there is no dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """

    def ask(index: Index, _: _Topics) -> Exportable | None:
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.dead_letters.index.previewing import indexed_exportable

        return indexed_exportable(index, group, wanted, wall_clock_ms())

    return _asked(settings, group, folder, ask)


def _asked(
    settings: Settings,
    group: str,
    folder: Path | None,
    ask: Callable[[Index, _Topics], _Answer | None],
) -> _Answer | None:
    """Ask an index that is up to date, with the topics as they were before; ``None`` if there is none."""
    from kafka_redelivery.consumers.errors import IndexUnusableError

    if not can_index(settings):
        return None
    from kafka_redelivery.dead_letters.created_again import letter_topic_ids
    from kafka_redelivery.dead_letters.letter_places import letter_ends
    from kafka_redelivery.transport.admin.cluster_admin import TIMEOUT_S, ClusterAdmin
    from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets

    offsets = PartitionOffsets(settings.kafka, timeout_s=TIMEOUT_S)
    counts = ClusterAdmin(settings.kafka, calls=offsets.calls).partition_counts()
    ids = letter_topic_ids(settings, offsets.calls)
    topics = _Topics(counts, ids, letter_ends(settings, counts, offsets))
    try:
        with refreshed_index(settings, group, folder) as index:
            return ask(index, topics)
    except IndexUnusableError as error:
        stderr().print(f"without an index all dead letters are read: {error}")
        return None
