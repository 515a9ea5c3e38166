"""Consumers that read partitions without being a member of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_redelivery.transport.client_config import IDLE_FETCH, Config, ConfigValue, consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.refused_position import partition_of
from kafka_redelivery.transport.clients.unfetchable_partitions import UnfetchablePartitions
from kafka_redelivery.transport.errors import PartitionUnfetchableError, ReaderError, TopicForbiddenError
from kafka_redelivery.transport.kafka_errors import consumer_error, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition

_CONFIG: Config = {
    **IDLE_FETCH,
    # Records that were deleted before they were read are skipped: nothing depends on them.
    "auto.offset.reset": "earliest",
}


class AssignedReader:
    """Reads committed records from explicit offsets, using little memory. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, ConfigValue], group: str, *, endures: bool = False) -> None:
        """Create the consumer.

        Args:
            kafka: the client settings.
            group: the group id, which the broker may check; the consumer neither joins the group nor commits.
            endures: whether an error of one partition or topic halts what it concerns, which is fetched again later.
        """
        self._endures = endures
        self._unfetchable = UnfetchablePartitions()
        config = consumer_config(kafka, group=group, instance=None) | _CONFIG
        self._group = group
        self._consumer = open_consumer(config)
        self._positions: dict[Partition, int] = {}
        self._reached_ends: dict[Partition, int] = {}
        """End offsets when they were reached; a transaction marker may lie between position and end."""

    @property
    def errors(self) -> Mapping[Partition, ReaderError]:
        """The partitions that cannot be fetched at present, if this reader endures."""
        return self._unfetchable.errors

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read exactly these partitions from now on.

        Args:
            starts: the offset at which to start each. A partition that is read already keeps its position, unless
                that is beyond this offset.
        """
        gone = [partition for partition in self._positions if partition not in starts]
        back = [partition for partition, start in starts.items() if start < self._positions.get(partition, start)]
        new = [partition for partition in starts if partition not in self._positions]
        self._unassign(gone + back)
        for partition in gone + back:
            self._unfetchable.forget(partition)
            del self._positions[partition]
            self._reached_ends.pop(partition, None)
        if new or back:
            begins = [TopicPartition(*partition, starts[partition]) for partition in new + back]
            self._consumer.incremental_assign(begins)
        for partition in new + back:
            self._positions[partition] = starts[partition]

    def _unassign(self, partitions: Iterable[Partition]) -> None:
        """Stop fetching partitions; a halted one is not fetched already."""
        fetched = [TopicPartition(*each) for each in partitions if not self._unfetchable.is_halted(each)]
        if fetched:
            self._consumer.incremental_unassign(fetched)

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return up to ``maximum`` records: wait for the first, then take those that are there already.

        Raises:
            ReaderError: the consumer cannot go on.
        """
        if due := self._unfetchable.take_due():
            self._consumer.incremental_assign([TopicPartition(*each, self._positions[each]) for each in due])
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        good = []
        fetched = set()
        for message in [first, *(self._consumer.consume(maximum - 1, 0) if maximum > 1 else [])]:
            partition, offset = partition_of(message), message.offset() or 0
            error = message.error()
            if error is None:
                if partition in self._positions and not self._unfetchable.is_halted(partition):
                    self._positions[partition] = offset + 1
                    fetched.add(partition)
                    good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                self._reached_ends[partition] = offset
                fetched.add(partition)
            elif not is_transient_for_consumer(error):
                self._on_error(error, partition)
        if self._unfetchable.errors:
            self._unfetchable.fetched(fetched)
        return cast("list[Message]", good)

    def _on_error(self, error: KafkaError, partition: Partition) -> None:
        """Halt the partition, or all that are read of a topic that may not be read.

        Raises:
            ReaderError: this reader does not endure, or the error concerns all partitions.
        """
        failure = consumer_error(
            error, partition.topic, self._group, partition.number, self._positions.get(partition, 0)
        )
        if not self._endures or not isinstance(failure, PartitionUnfetchableError | TopicForbiddenError):
            raise failure
        denied = isinstance(failure, TopicForbiddenError)
        affected = [each for each in self._positions if each == partition or (denied and each.topic == partition.topic)]
        self._unassign(affected)
        for each in affected:
            if not self._unfetchable.is_halted(each):
                self._unfetchable.add(each, failure)

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


class LoneReader(GroupReader):
    """Reads all partitions of its topics and the committed offsets of a group that it does not join."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._cooperative = False  # each subscription replaces the partitions

    def _subscribe(self) -> None:
        counts = self.partition_counts(self._topics).items()
        every = [TopicPartition(topic, number) for topic, count in counts for number in range(count)]
        self._on_assign(self._consumer, every)
