"""Where a partition is to be read from after Kafka, or the client, has reported an error of it."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

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
    expected = _position(consumer, partition, start)
    try:
        found = consumer.get_watermark_offsets(TopicPartition(*partition), _TIMEOUT_S)
    except KafkaException:
        found = None
    if found is None:
        return expected
    start_of_log, end = found
    if refused is not None and refused > max(end, expected):
        return expected  # behind a damaged batch, the client jumps to any offset
    # An offset that the log has again was refused because the log was shorter then. Its new record is another one.
    truncated = expected >= 0 if refused is None else refused >= start_of_log
    offset = max(0, expected) if refused is None else refused
    return PositionDeletedError(*partition, offset, detail, end=end if truncated else None)


def partition_of(message: Message) -> Partition:
    """Return the partition of a record or an error; -1 is its number if an error concerns none."""
    number = message.partition()
    return Partition(message.topic() or "", -1 if number is None else number)


def position_before(consumer: Consumer, messages: Sequence[Message], index: int, start: int) -> int:
    """Return the offset behind the last record of a partition that was fetched before an error of it.

    The error names an offset, too, but that is read from the batch, which may be damaged. So is the position at which
    the client goes on.

    Args:
        consumer: has fetched the messages.
        messages: what one fetch has returned.
        index: the index of the error among them.
        start: where the partition was last made to start.
    """
    partition = partition_of(messages[index])
    fetched = [each for each, message in enumerate(messages) if partition_of(message) == partition]
    records = [each for each in fetched if messages[each].error() is None]
    before = [each for each in records if each < index]
    if before:
        return (messages[before[-1]].offset() or 0) + 1
    if not records:
        return _position(consumer, partition, start)
    # The client's position is that of the records behind the error. Records that are fetched again are recognized.
    try:
        [committed] = consumer.committed([TopicPartition(*partition)], _TIMEOUT_S)
    except KafkaException:
        return start
    return max(start, committed.offset)


def _position(consumer: Consumer, partition: Partition, start: int) -> int:
    """Return the offset behind the last record that was fetched."""
    [position] = consumer.position([TopicPartition(*partition)])
    return position.offset if position.offset >= 0 else start
