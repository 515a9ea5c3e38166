"""Where a streaming query begins: at the group's committed offsets, never behind records that nobody has handled."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipeline.errors import StreamRefusedError
from topology.progress import Checkpoint, Progress
from topology.settings import Settings
from transport.client_config import consumer_config, producer_config, source_start
from transport.errors import MissingOffsetError
from transport.protocols import Partition
from transport.reader import Reader
from transport.writer import TransactedWriter


def partitions_of(settings: Settings, counts: Mapping[str, int]) -> frozenset[Partition]:
    """Every partition of the sources and of their ready topics."""
    topics = topics_of(settings)
    return frozenset(Partition(topic, number) for topic in topics for number in range(counts[topic]))


def topics_of(settings: Settings) -> list[str]:
    """The sources and their ready topics."""
    naming = settings.naming()
    return [name for each in settings.sources for name in (each.topic, naming.ready_topic(each.topic))]


def ready_topics(settings: Settings) -> list[str]:
    """The ready topics of the sources."""
    naming = settings.naming()
    return [naming.ready_topic(each.topic) for each in settings.sources]


def partition_counts(settings: Settings) -> dict[str, int]:
    """Of every topic of the cluster.

    Raises:
        ReaderError: the broker does not tell.
    """
    reader = Reader(consumer_config(settings.kafka, group=settings.group, instance=None))
    try:
        return reader.partition_counts()
    finally:
        reader.close()


def start_offsets(settings: Settings, wanted: frozenset[Partition], member: object) -> dict[Partition, int]:
    """Where each partition is read from.

    Where the group has committed nothing, that is committed now: nothing that comes from here on may be left out, even
    if nothing of the partition is handled for long, and a worker goes on, or a query without this one's checkpoint.

    Args:
        settings: the configuration.
        wanted: the partitions.
        member: the driver's membership of the group.

    Raises:
        MissingOffsetError: a ready topic has no offset, so what waits there could be lost or repeated.
        StreamRefusedError: a worker has left records that wait in place, which a query cannot go on with.
        ReaderError: the broker does not tell.
        TransportError: it does not take the commit.
    """
    reader = Reader(consumer_config(settings.kafka, group=settings.group, instance=None))
    try:
        committed = reader.committed(sorted(wanted))
        starts = {place: _start(settings, reader, place, committed[place]) for place in sorted(wanted)}
        fresh = {place: Checkpoint(start, "") for place, start in starts.items() if committed[place] is None}
        if fresh:
            config = producer_config(settings.kafka, transactional_id=f"{settings.group}.spark")
            writer = TransactedWriter(config, reader)
            try:
                writer.write((), fresh, member=member)
            finally:
                writer.close()
        return starts
    finally:
        reader.close()


def as_json(starts: Mapping[Partition, int]) -> str:
    """Offsets as Spark's Kafka source takes them."""
    topics: dict[str, dict[str, int]] = {}
    for place, offset in starts.items():
        topics.setdefault(place.topic, {})[str(place.number)] = offset
    return json.dumps(topics)


def _start(settings: Settings, reader: Reader, place: Partition, committed: Checkpoint | None) -> int:
    if committed is not None:
        if Progress.restore(committed.offset, committed.metadata).waiting:
            raise StreamRefusedError(
                f"in {place.topic}-{place.number} records wait in place, as a worker with nonBlockingRedelivery: false "
                "left them; let a worker of the same configuration finish them first"
            )
        return committed.offset
    if place.topic not in {source.topic for source in settings.sources}:
        raise MissingOffsetError(
            f"{place.topic}-{place.number} has no committed offset for this group, so what waits "
            "there could be lost or repeated; see `redelivery topology check`, mend with `topology apply`"
        )
    low, high = reader.bounds(place)
    return low if source_start(settings.kafka) == "earliest" else high
