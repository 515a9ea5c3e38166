"""Committed offsets as the client takes and returns them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.kafka_errors import with_right
from kafka_redelivery.transport.protocols import Partition


def checkpoint_of(entry: TopicPartition) -> Checkpoint | None:
    """Return what the client has read; ``None`` if no offset is committed."""
    return None if entry.offset < 0 else Checkpoint(entry.offset, entry.metadata or "")


def offsets_of(checkpoints: Mapping[Partition, Checkpoint]) -> list[TopicPartition]:
    """Return what the client commits."""
    return [
        TopicPartition(partition.topic, partition.number, point.offset, metadata=point.metadata)
        for partition, point in checkpoints.items()
    ]


def commit_offsets(consumer: Consumer, checkpoints: Mapping[Partition, Checkpoint]) -> None:
    """Commit offsets without a transaction, and wait for the answer.

    Raises:
        KafkaException: an offset is not committed.
    """
    if checkpoints:
        for entry in consumer.commit(offsets=offsets_of(checkpoints), asynchronous=False) or ():
            if entry.error is not None:
                raise KafkaException(with_right(entry.error, f"Read on topic {entry.topic}"))
