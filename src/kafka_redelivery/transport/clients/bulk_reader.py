"""Reads topics in bulk, for the index: whole batches, with as little work per record as the client allows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka import Message as ClientMessage

from kafka_redelivery.transport.client_config import Config, ConfigValue, consumer_config
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.kafka_errors import consumer_error, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition

_BATCH = 5_000
_POLL_S = 0.2
_STALLED_S = 90.0
"""Longer than an open transaction of a dead process lasts: its time-out, and the broker's scan every 10 s."""

_CONFIG: Config = {
    # Enough for the client to fetch while a batch is written, and little memory even for small records.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.message.max.bytes": 1_048_576,
    # Records that were deleted before they were read are skipped.
    "auto.offset.reset": "earliest",
}


class Batch(NamedTuple):
    """Committed records, in order within each partition, and how far each partition is read with them."""

    messages: list[Message]
    places: list[tuple[str, int]]
    """Topic and partition of each record."""

    offsets: list[int]
    """The offset of each record."""

    positions: dict[Partition, int]
    """For each partition that moved, the offset that is read next; past markers and aborted records, too."""


def read_batches(
    kafka: Mapping[str, ConfigValue], group: str, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> Iterator[Batch]:
    """Yield the committed records of partitions from their starts at least up to their ends.

    A batch may have records above an end that were committed in the meantime. The positions say so.

    Args:
        kafka: the client settings.
        group: the group id, which the broker may check; the consumer neither joins the group nor commits.
        starts: the offset at which to start each partition.
        ends: for each partition the offset after the last record that has to be read.

    Raises:
        ReaderError: Kafka refuses, or sends nothing for a long time.
    """
    unread = {partition: end for partition, end in ends.items() if starts[partition] < end}
    if not unread:
        return
    consumer = open_consumer(consumer_config(kafka, group=group, instance=None) | _CONFIG)
    try:
        consumer.assign([TopicPartition(*each, starts[each]) for each in unread])
        moved_s = time.monotonic()
        while unread:
            first = consumer.poll(_POLL_S)
            fetched = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
            batch = _batch(fetched, group)
            for partition, position in batch.positions.items():
                if position >= unread.get(partition, position + 1):
                    del unread[partition]
            if batch.positions:
                moved_s = time.monotonic()
                yield batch
            elif time.monotonic() - moved_s > _STALLED_S:
                partition, end = next(iter(unread.items()))
                raise ReaderError(
                    f"{partition} cannot be read up to offset {end}: Kafka sent nothing for {_STALLED_S:g} s"
                )
    finally:
        consumer.close()


def _batch(fetched: list[ClientMessage], group: str) -> Batch:
    messages = [each for each in fetched if each.error() is None]
    # All of them have a topic, a partition and an offset: only a message with an error may lack them.
    places = cast("list[tuple[str, int]]", [(each.topic(), each.partition()) for each in messages])
    offsets = cast("list[int]", [each.offset() for each in messages])
    last = dict(zip(places, offsets, strict=True))
    positions = {Partition(*place): offset + 1 for place, offset in last.items()}
    if len(messages) < len(fetched):
        for each in fetched:
            error = each.error()
            if error is None:
                continue
            partition = Partition(each.topic() or "", each.partition() or 0)
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                positions[partition] = max(each.offset() or 0, positions.get(partition, 0))
            elif not is_transient_for_consumer(error):
                raise consumer_error(error, partition.topic, group, partition.number, each.offset() or 0, joins=False)
    return Batch(cast("list[Message]", messages), places, offsets, positions)
