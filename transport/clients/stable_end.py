"""Whether a position lies beyond the end of its partition, which has lost records then."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_redelivery.transport.protocols import Partition

_TIMEOUT_S = 2.0


def end_and_position(consumer: Consumer, partition: Partition, offset: int, start: int) -> tuple[int | None, int]:
    """Return where a partition ends and where it is to be read, after Kafka has refused to fetch it at ``offset``.

    Waits up to two seconds for the broker.

    Returns:
        Its last stable offset if that is lower than ``offset`` (``None`` if not, or if unknown), and the offset behind
        the last record that was fetched, which is ``start`` if none was since the last seek.
    """
    [position] = consumer.position([TopicPartition(*partition)])
    expected = position.offset if position.offset >= 0 else start
    try:
        found = consumer.get_watermark_offsets(TopicPartition(*partition), _TIMEOUT_S)
    except KafkaException:
        return None, expected
    return None if found is None or found[1] >= offset else found[1], expected
