"""Reads topics up to ends that are known before, for tools."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as ClientMessage

from kafka_redelivery.transport.client_config import SMALL_PREFETCH, Config, ConfigValue, consumer_config
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.kafka_errors import consumer_error, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition

_BATCH = 1000
_POLL_S = 0.2
_STALLED_S = 90.0
"""Longer than an open transaction of a dead process lasts: its time-out, and the broker's scan every 10 s."""

_CONFIG: Config = {
    **SMALL_PREFETCH,
    "fetch.message.max.bytes": 1_048_576,
    # Records that were deleted before they were read are skipped.
    "auto.offset.reset": "earliest",
}


def read_between(
    kafka: Mapping[str, ConfigValue],
    group: str,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    *,
    stalled_s: float = _STALLED_S,
) -> Iterator[Message]:
    """Yield the committed records of partitions from their starts up to their ends, in order within each partition.

    An end above an open transaction is reached when that transaction has ended.

    Args:
        kafka: the client settings.
        group: the group id, which the broker may check; the consumer neither joins the group nor commits.
        starts: the offset at which to start each partition; 0 if it is missing.
        ends: for each partition the offset after the last one to read.
        stalled_s: how long to wait while Kafka sends nothing.

    Raises:
        ReaderError: Kafka refuses, or sends nothing for ``stalled_s``.
    """
    reading = _Reading(starts, ends)
    if not reading.unread:
        return
    consumer = open_consumer(consumer_config(kafka, group=group, instance=None) | _CONFIG)
    try:
        consumer.assign([TopicPartition(*each, starts.get(each, 0)) for each in reading.unread])
        moved_s = time.monotonic()
        while reading.unread:
            messages = reading.take(_fetched(consumer), group)
            yield from messages
            if messages or reading.moved():
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > stalled_s:
                partition, end = next(iter(reading.unread.items()))
                raise ReaderError(
                    f"{partition} cannot be read up to offset {end}: Kafka sent nothing for "
                    f"{stalled_s:g} s; is a transaction open there (kafka-transactions.sh find-hanging)?"
                )
    finally:
        consumer.close()


def _fetched(consumer: Consumer) -> list[ClientMessage]:
    """Wait for the first record, or the first end of a partition, and return what is there by then.

    A call that asks for many waits until it has all of them, so the end of each range would take its whole time-out.
    """
    first = consumer.poll(_POLL_S)
    return [] if first is None else [first, *consumer.consume(_BATCH, 0)]


class _Reading:
    """The partitions whose ends are not reached yet."""

    def __init__(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        self.unread = {partition: end for partition, end in ends.items() if starts.get(partition, 0) < end}
        self._before = len(self.unread)

    def moved(self) -> bool:
        """Whether an end was reached since the last call."""
        before, self._before = self._before, len(self.unread)
        return self._before < before

    def take(self, fetched: Sequence[ClientMessage], group: str) -> list[Message]:
        """Return the records below the ends."""
        found = []
        for message in fetched:
            partition, offset = Partition(message.topic() or "", message.partition() or 0), message.offset() or 0
            error, end = message.error(), self.unread.get(partition)
            if error is None:
                if end is not None and offset < end:
                    found.append(cast("Message", message))
                if end is not None and offset + 1 >= end:
                    del self.unread[partition]
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                if end is not None and offset >= end:
                    del self.unread[partition]
            elif not is_transient_for_consumer(error):
                raise consumer_error(error, partition.topic, group, partition.number, offset, joins=False)
        return found
