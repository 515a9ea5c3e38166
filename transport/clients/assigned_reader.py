"""A consumer that reads given partitions without being a member of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_redelivery.transport.client_config import IDLE_FETCH, Config, ConfigValue, consumer_config
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.kafka_errors import consumer_error, is_transient_for_consumer
from kafka_redelivery.transport.protocols import Message, Partition

_CONFIG: Config = {
    **IDLE_FETCH,
    # Records that were deleted before they were read are skipped: nothing depends on them.
    "auto.offset.reset": "earliest",
}


class AssignedReader:
    """Reads committed records from explicit offsets, using little memory. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, ConfigValue], group: str) -> None:
        """Create the consumer.

        Args:
            kafka: the client settings.
            group: the group id, which the broker may check; the consumer neither joins the group nor commits.
        """
        config = consumer_config(kafka, group=group, instance=None) | _CONFIG
        self._group = group
        self._consumer = Consumer(config, logger=client_log)
        self._positions: dict[Partition, int] = {}
        self._reached_ends: dict[Partition, int] = {}
        """End offsets when they were reached; a transaction marker may lie between position and end."""

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read exactly these partitions from now on.

        Args:
            starts: the offset at which to start each. A partition that is read already keeps its position, unless
                that is beyond this offset.
        """
        gone = [partition for partition in self._positions if partition not in starts]
        back = [partition for partition, start in starts.items() if start < self._positions.get(partition, start)]
        new = [partition for partition in starts if partition not in self._positions]
        if gone or back:
            self._consumer.incremental_unassign([TopicPartition(*partition) for partition in gone + back])
        for partition in gone + back:
            del self._positions[partition]
            self._reached_ends.pop(partition, None)
        if new or back:
            begins = [TopicPartition(*partition, starts[partition]) for partition in new + back]
            self._consumer.incremental_assign(begins)
        for partition in new + back:
            self._positions[partition] = starts[partition]

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return up to ``maximum`` records: wait for the first, then take those that are there already.

        Raises:
            ReaderError: the consumer cannot go on.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        good = []
        for message in [first, *(self._consumer.consume(maximum - 1, 0) if maximum > 1 else [])]:
            partition, offset = Partition(message.topic() or "", message.partition() or 0), message.offset() or 0
            error = message.error()
            if error is None:
                if partition in self._positions:
                    self._positions[partition] = offset + 1
                    good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                self._reached_ends[partition] = offset
            elif not is_transient_for_consumer(error):
                raise consumer_error(error, partition.topic, self._group)
        return cast("list[Message]", good)

    def lag(self, partition: Partition, end: int) -> int:
        """Estimate the number of records that are still to be read, without asking the broker; exactly 0 at the end.

        Args:
            partition: one of those assigned.
            end: its end offset, as far as the caller knows.
        """
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except (KafkaException, TypeError):
            high = end
        read = max(self._positions.get(partition, 0), self._reached_ends.get(partition, 0))
        return max(0, max(high, end) - read)

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()
