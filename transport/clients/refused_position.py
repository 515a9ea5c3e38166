"""What it means that Kafka, or the client, refuses to fetch a partition at an offset."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Partition

_TIMEOUT_S = 2.0


def judge_position(
    consumer: Consumer, partition: Partition, refused: int | None, start: int, detail: str
) -> PositionDeletedError | int:
    """Return the error of a position that does not exist, or the offset to seek to, because it may exist.

    Waits up to two seconds for the broker.

    Args:
        consumer: its client has stopped fetching the partition.
        partition: the partition.
        refused: the refused offset; ``None`` if the client has found itself that the log was truncated (KIP-320).
        start: where the partition was last made to start.
        detail: the client's error.
    """
    [position] = consumer.position([TopicPartition(*partition)])
    expected = position.offset if position.offset >= 0 else start  # behind the last record that was fetched
    try:
        found = consumer.get_watermark_offsets(TopicPartition(*partition), _TIMEOUT_S)
    except KafkaException:
        found = None
    if found is None:
        return expected
    end = found[1]
    if refused is not None and refused > max(end, expected):
        return expected  # behind a damaged batch, the client jumps to any offset
    truncated = expected >= 0 if refused is None else refused > end
    offset = max(0, expected) if refused is None else refused
    return PositionDeletedError(*partition, offset, detail, end=end if truncated else None)
