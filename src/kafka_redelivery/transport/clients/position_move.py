"""Moves committed offsets that were deleted, or have expired, to the log start, also while members of the group run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kafka_redelivery.topology.cluster.changes import MoveToLogStart
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.client_config import Config, ConfigValue, consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.protocols import Partition

_AUTHOR = 1
"""Author of the delivery notes in the new commits. The records that another process has noted become suspects."""


def move_to_log_start(kafka: Mapping[str, ConfigValue], moves: Sequence[MoveToLogStart]) -> Iterator[MoveToLogStart]:
    """Move committed offsets and yield what was moved; an offset that exists by now stays.

    A transaction without a membership commits the new offsets, which Kafka allows while members of the group run.

    Raises:
        TransportError: the cluster does not answer or does not allow it.
        ProgressError: the metadata of a commit was not written by this project.
    """
    for group in dict.fromkeys(move.group for move in moves):
        reader = GroupReader(_config(kafka, group))
        try:
            wanted = [Partition(move.topic, move.partition) for move in moves if move.group == group]
            expired = {Partition(move.topic, move.partition) for move in moves if move.before is None}
            moved = dict(_moved(reader, group, wanted, expired))
            if moved:
                config = producer_config(kafka, transactional_id=f"{group}.topology")
                writer = TransactionalWriter(config, reader, topic=wanted[0].topic)
                try:
                    checkpoints = {Partition(move.topic, move.partition): point for move, point in moved.items()}
                    writer.write((), checkpoints, group_metadata=writer.group_metadata())
                finally:
                    writer.close()
        finally:
            reader.close()
        yield from moved


def _config(kafka: Mapping[str, ConfigValue], group: str) -> Config:
    """Return settings whose group metadata names no member; with the new protocol the client always makes up a name."""
    config = consumer_config(kafka, group=group, instance=None) | {"group.protocol": "classic"}
    config.pop("group.remote.assignor", None)
    return config


def _moved(
    reader: GroupReader, group: str, partitions: Sequence[Partition], expired: Collection[Partition]
) -> Iterator[tuple[MoveToLogStart, Checkpoint]]:
    for partition, committed in reader.committed(partitions).items():
        log_start, _ = reader.bounds(partition)
        if committed is None and partition in expired:
            yield MoveToLogStart(group, *partition, None, log_start), Checkpoint(log_start, "")
        elif committed is not None and committed.offset < log_start:
            progress = Progress.restore(committed.offset, committed.metadata, _AUTHOR)
            point = progress.start_at(log_start)
            yield MoveToLogStart(group, *partition, committed.offset, point.offset), point
