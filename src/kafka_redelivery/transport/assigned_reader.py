"""Reads partitions without being a member of a group: on and on, or up to ends that are known before."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from time import monotonic
from typing import NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as ClientMessage
from confluent_kafka.admin import ClusterMetadata

from kafka_redelivery.transport.client_config import IDLE_FETCH, SMALL_PREFETCH, Config, ConfigValue, consumer_config
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.errors import PartitionUnfetchableError, ReaderError, TopicForbiddenError
from kafka_redelivery.transport.kafka_errors import consumer_error, is_end, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition
from kafka_redelivery.transport.unreadable import UnfetchablePartitions

_BATCH = 5_000
_POLL_S = 0.2
_STALLED_S = 90.0
"""Longer than an open transaction of a dead process lasts: its time-out, and the broker's scan every 10 s."""

FEW: Config = SMALL_PREFETCH | {"fetch.message.max.bytes": 1_048_576}
"""Settings of a client that reads little."""

UNCOMMITTED: Config = {"isolation.level": "read_uncommitted"}
"""Settings of a client that reads the records of open and aborted transactions, too, and what is behind them."""

_MANY: Config = {
    # Enough for the client to fetch while a batch is written, and little memory even for small records.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.message.max.bytes": 1_048_576,
}


class ReadBatch(NamedTuple):
    """Committed records, in order within each partition, and how far each partition is read with them."""

    messages: list[Message]
    places: list[tuple[str, int]]
    """Topic and partition of each record."""

    offsets: list[int]
    """The offset of each record."""

    positions: dict[Partition, int]
    """For each partition that moved, the offset that is read next; past markers and aborted records, too."""

    ended: frozenset[Partition] = frozenset()
    """The partitions of which the end was reached."""


def partition_of(message: ClientMessage) -> Partition:
    """Return the partition of a record or an error; -1 is its number if an error concerns none."""
    number = message.partition()
    return Partition(message.topic() or "", -1 if number is None else number)


def committed_of(consumer: Consumer, partitions: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
    """Ask for the committed offsets of a consumer's group, once.

    Some brokers answer with an error for a group that they do not know yet; that group has committed nothing.

    Raises:
        KafkaException: Kafka does not answer, or refuses.
    """
    try:
        return consumer.committed(partitions, timeout=timeout_s)
    except KafkaException as exception:
        if exception.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise
        return [TopicPartition(each.topic, each.partition) for each in partitions]


def take(consumer: Consumer, maximum: int, timeout_s: float) -> list[ClientMessage]:
    """Wait for one message, and return it with those that are there by then; ``consume`` would wait for all of them."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(maximum - 1, 0)] if maximum > 1 else [first]


class AssignedReader:
    """Reads committed records from explicit offsets, and skips those that were deleted meanwhile. Not thread-safe."""

    def __init__(
        self,
        kafka: Mapping[str, ConfigValue],
        group: str,
        prefetch: Config = IDLE_FETCH,
        *,
        logger: logging.Logger = client_log,
        endures: bool = False,
    ) -> None:
        """Create the consumer.

        Args:
            kafka: the client settings.
            group: the group id, which the broker may check; the consumer neither joins the group nor commits.
            prefetch: settings that say how much the client fetches in advance.
            logger: logs what the client says.
            endures: whether an error of one partition or topic halts what it concerns, which is fetched again later.
        """
        self._endures = endures
        self._unfetchable = UnfetchablePartitions()
        self._group = group
        config = consumer_config(kafka, group=group, instance=None) | prefetch | {"auto.offset.reset": "earliest"}
        self._consumer = open_consumer(config, logger)
        self._positions: dict[Partition, int] = {}
        self._reached_ends: dict[Partition, int] = {}
        """End offsets when they were reached; a transaction marker may lie between position and end."""

    @property
    def errors(self) -> Mapping[Partition, ReaderError]:
        """The partitions that cannot be fetched at present, if this reader endures."""
        return self._unfetchable.errors

    def metadata(self, topic: str, timeout_s: float) -> ClusterMetadata:
        """Ask for a topic.

        Raises:
            KafkaException: Kafka does not answer.
        """
        found: ClusterMetadata = self._consumer.list_topics(topic, timeout=timeout_s)
        return found

    def bounds(self, partition: Partition, timeout_s: float) -> tuple[int, int]:
        """Ask for the log start offset and the end offset of a partition; raises as :meth:`metadata`."""
        found = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout_s)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - the client's own name
        return found

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
            self._unfetchable.drop(partition)
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

    def fetch(self, maximum: int, timeout_s: float) -> ReadBatch:
        """Return up to ``maximum`` records: wait for the first, then take those that are there already.

        Raises:
            ReaderError: the consumer cannot go on.
        """
        if due := self._unfetchable.take_due():
            self._consumer.incremental_assign([TopicPartition(*each, self._positions[each]) for each in due])
        fetched = take(self._consumer, maximum, timeout_s)
        messages = [each for each in fetched if each.error() is None]
        ends: dict[Partition, int] = {}
        if len(messages) < len(fetched):
            messages, ends = self._without_errors(fetched)
        # All of them have a topic, a partition and an offset: only a message with an error may lack them.
        places = cast("list[tuple[str, int]]", [(each.topic(), each.partition()) for each in messages])
        offsets = cast("list[int]", [each.offset() for each in messages])
        last = {Partition(*place): offset + 1 for place, offset in dict(zip(places, offsets, strict=True)).items()}
        self._positions |= last
        self._reached_ends |= ends
        positions = last | {each: max(end, last.get(each, 0)) for each, end in ends.items()}
        if self._unfetchable.errors:
            self._unfetchable.fetched(positions.keys())
        return ReadBatch(cast("list[Message]", messages), places, offsets, positions, frozenset(ends))

    def _without_errors(self, fetched: list[ClientMessage]) -> tuple[list[ClientMessage], dict[Partition, int]]:
        """Return the records, and the ends that were reached. What follows the error of a partition is fetched again.

        Raises:
            ReaderError: an error that is not transient, unless this reader endures and it concerns a part of them.
        """
        good, ends = [], {}
        for message in fetched:
            partition, offset, error = partition_of(message), message.offset() or 0, message.error()
            if self._unfetchable.is_halted(partition):
                continue
            if error is None:
                good.append(message)
                self._positions[partition] = offset + 1
            elif is_end(error):
                ends[partition] = offset
            elif not is_transient_for_consumer(error):
                self._on_error(error, partition)
        return good, ends

    def _on_error(self, error: KafkaError, partition: Partition) -> None:
        """Halt the partition, or all that are read of a topic that may not be read.

        Raises:
            ReaderError: this reader does not endure, or the error concerns all partitions.
        """
        position = self._positions.get(partition, 0)
        failure = consumer_error(error, partition.topic, self._group, partition.number, position, joins=False)
        if not self._endures or not isinstance(failure, PartitionUnfetchableError | TopicForbiddenError):
            raise failure
        denied = isinstance(failure, TopicForbiddenError)
        affected = [each for each in self._positions if each == partition or (denied and each.topic == partition.topic)]
        self._unassign(affected)
        for each in affected:
            if not self._unfetchable.is_halted(each):
                self._unfetchable.add(each, failure)

    def batches(
        self, starts: Mapping[Partition, int], ends: Mapping[Partition, int | None], stalled_s: float = _STALLED_S
    ) -> Iterator[ReadBatch]:
        """Yield the records of partitions from their starts at least up to their ends.

        A batch may have records above an end that were committed in the meantime. The positions say so. An end above
        an open transaction is reached when that transaction has ended.

        Args:
            starts: the offset at which to start each partition; 0 if it is missing.
            ends: for each partition the offset after the last one to read; ``None`` = the end that it has now.
            stalled_s: how long to wait while Kafka sends nothing.

        Raises:
            ReaderError: Kafka refuses, or sends nothing for ``stalled_s``.
        """
        unread = {each: end for each, end in ends.items() if end is None or starts.get(each, 0) < end}
        if unread:
            self.assign({each: starts.get(each, 0) for each in unread})
        moved_s = monotonic()
        while unread:
            batch = self.fetch(_BATCH, _POLL_S)
            moved = batch.positions.keys() & unread.keys()
            for partition in moved:
                end = unread[partition]
                if partition in batch.ended if end is None else batch.positions[partition] >= end:
                    del unread[partition]
            if moved:
                moved_s = monotonic()
            elif monotonic() - moved_s > stalled_s:
                partition, end = next(iter(unread.items()))
                up_to = "its end" if end is None else f"offset {end}"
                raise ReaderError(
                    f"{partition} cannot be read up to {up_to}: Kafka sent nothing for {stalled_s:g} s; "
                    "is a transaction open there (kafka-transactions.sh find-hanging)?"
                )
            if batch.positions:
                given_s = monotonic()
                yield batch
                moved_s += monotonic() - given_s  # for what the caller needs, Kafka is not waited for

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


def read_batches(
    kafka: Mapping[str, ConfigValue],
    group: str,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    *,
    prefetch: Config = _MANY,
    stalled_s: float = _STALLED_S,
) -> Iterator[ReadBatch]:
    """Yield what :meth:`AssignedReader.batches` does, with a reader of its own. It opens none if there is nothing."""
    if any(starts.get(partition, 0) < end for partition, end in ends.items()):
        with closing(AssignedReader(kafka, group, prefetch)) as reader:
            yield from reader.batches(starts, ends, stalled_s)


def read_between(
    kafka: Mapping[str, ConfigValue],
    group: str,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    *,
    uncommitted: bool = False,
    stalled_s: float = _STALLED_S,
) -> Iterator[Message]:
    """Yield the committed records from the starts up to the ends and no further; see :func:`read_batches`.

    With ``uncommitted`` also those of open and aborted transactions.
    """
    prefetch = FEW | UNCOMMITTED if uncommitted else FEW
    for batch in read_batches(kafka, group, starts, ends, prefetch=prefetch, stalled_s=stalled_s):
        for message, place, offset in zip(batch.messages, batch.places, batch.offsets, strict=True):
            if offset < ends[Partition(*place)]:
                yield message
