"""The offsets a streaming query starts from: the group's committed offsets, so that no record is skipped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kafka_redelivery.pipeline.errors import StreamRefusedError
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.client_config import consumer_config, producer_config, source_start
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import MissingOffsetError
from kafka_redelivery.transport.protocols import Partition


def partitions_of(settings: Settings, counts: Mapping[str, int]) -> frozenset[Partition]:
    """Return every partition of the sources and their ready topics."""
    topics = topics_of(settings)
    return frozenset(Partition(topic, number) for topic in topics for number in range(counts[topic]))


def topics_of(settings: Settings) -> list[str]:
    """Return the sources and their ready topics."""
    naming = settings.naming()
    return [name for each in settings.sources for name in (each.topic, naming.ready_topic(each.topic))]


def ready_topics(settings: Settings) -> list[str]:
    """Return the ready topics of the sources."""
    naming = settings.naming()
    return [naming.ready_topic(each.topic) for each in settings.sources]


def partition_counts(settings: Settings) -> dict[str, int]:
    """Return the number of partitions of every topic of the cluster.

    Raises:
        ReaderError: the broker does not answer.
    """
    reader = GroupReader(consumer_config(settings.kafka, group=settings.group, instance=None))
    try:
        return reader.partition_counts()
    finally:
        reader.close()


def start_offsets(settings: Settings, wanted: frozenset[Partition], member: object) -> dict[Partition, int]:
    """Return the offset that each partition is read from.

    For a partition without a commit, the start offset is committed now. Otherwise a worker, or a query without this
    checkpoint, that takes over before the first record is handled could start later and skip records.

    Args:
        settings: the configuration.
        wanted: the partitions.
        member: the driver's membership of the group.

    Raises:
        MissingOffsetError: a ready topic has no committed offset, so its records could be lost or repeated.
        StreamRefusedError: a worker left records that wait in place, which a query cannot continue.
        ReaderError: the broker does not answer.
        TransportError: the broker refuses the commit.
    """
    reader = GroupReader(consumer_config(settings.kafka, group=settings.group, instance=None))
    try:
        committed = reader.committed(sorted(wanted))
        starts = {partition: _start(settings, reader, partition, committed[partition]) for partition in sorted(wanted)}
        initial = {
            partition: Checkpoint(start, "") for partition, start in starts.items() if committed[partition] is None
        }
        if initial:
            config = producer_config(settings.kafka, transactional_id=f"{settings.group}.spark")
            writer = TransactionalWriter(config, reader)
            try:
                writer.write((), initial, group_metadata=member)
            finally:
                writer.close()
        return starts
    finally:
        reader.close()


def offsets_json(starts: Mapping[Partition, int]) -> str:
    """Return offsets in the format of Spark's Kafka source."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in starts.items():
        topics.setdefault(partition.topic, {})[str(partition.number)] = offset
    return json.dumps(topics)


def partitions_option(partitions: Iterable[Partition], *, whole: bool) -> dict[str, str]:
    """Return the option of Spark's Kafka source that names what it reads.

    Args:
        partitions: what it reads.
        whole: whether these are all partitions of their topics; it then reads new ones, too.
    """
    numbers: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        numbers.setdefault(partition.topic, []).append(partition.number)
    return {"subscribe": ",".join(numbers)} if whole else {"assign": json.dumps(numbers)}


def _start(settings: Settings, reader: GroupReader, partition: Partition, committed: Checkpoint | None) -> int:
    if committed is not None:
        if Progress.restore(committed.offset, committed.metadata).waiting:
            raise StreamRefusedError(
                f"in {partition} records wait in place, left by a worker with "
                "nonBlockingRedelivery: false; let a worker with the same configuration finish them first"
            )
        return committed.offset
    if partition.topic not in {source.topic for source in settings.sources}:
        raise MissingOffsetError(
            f"{partition} has no committed offset for this group, so what waits "
            "there could be lost or repeated; see `redelivery topology check`, fix with `topology apply`"
        )
    low, high = reader.bounds(partition)
    return low if source_start(settings.kafka) == "earliest" else high
