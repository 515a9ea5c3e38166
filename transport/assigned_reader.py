"""A consumer that reads the partitions it is given, without being a member of any group. Used by one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from transport.client_config import Config, Value, consumer_config
from transport.client_log import client_log
from transport.protocols import Message, Partition
from transport.read_refusals import read_refusal

_LEISURELY: Config = {
    "fetch.wait.max.ms": 500,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 4_096,
    "fetch.message.max.bytes": 262_144,
    # What was deleted before it was read is passed over: nothing depends on it.
    "auto.offset.reset": "earliest",
}
_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - the client's own names
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # just made, or just deleted
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


class AssignedReader:
    """Reads committed records only, from explicit positions, with little memory and no hurry."""

    def __init__(self, kafka: Mapping[str, Value], group: str) -> None:
        """Prepare.

        Args:
            kafka: the client settings.
            group: named to the broker, which may want to allow it; it is neither joined nor committed to.
        """
        config = consumer_config(kafka, group=group, instance=None) | _LEISURELY
        self._group = group
        self._consumer = Consumer(config, logger=client_log)
        self._positions: dict[Partition, int] = {}
        self._ends: dict[Partition, int] = {}
        """Where a partition's end was when it was reached; a marker of a transaction may lie before it."""

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read exactly these partitions from now on.

        Args:
            starts: where to read each; one that is being read goes back to there if it is further on.
        """
        gone = [place for place in self._positions if place not in starts]
        back = [place for place, start in starts.items() if start < self._positions.get(place, start)]
        new = [place for place in starts if place not in self._positions]
        if gone or back:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in gone + back])
        for place in gone + back:
            del self._positions[place]
            self._ends.pop(place, None)
        if new or back:
            self._consumer.incremental_assign([TopicPartition(*place, starts[place]) for place in new + back])
        for place in new + back:
            self._positions[place] = starts[place]

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Up to ``maximum`` records: waits for the first, takes what is there of the rest.

        Raises:
            ReaderError: it cannot go on as it is.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        good = []
        for message in [first, *(self._consumer.consume(maximum - 1, 0) if maximum > 1 else [])]:
            place, offset = Partition(message.topic() or "", message.partition() or 0), message.offset() or 0
            error = message.error()
            if error is None:
                if place in self._positions:
                    self._positions[place] = offset + 1
                    good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                self._ends[place] = offset
            elif error.code() not in _PASSING and not error.retriable():
                raise read_refusal(error, place.topic, self._group)
        return cast("list[Message]", good)

    def unread(self, partition: Partition, end: int) -> int:
        """About how many records there are yet to read, without asking the broker; exactly 0 at the end.

        Args:
            partition: one that is being read.
            end: its end, as far as the caller knows.
        """
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except (KafkaException, TypeError):
            high = end
        read = max(self._positions.get(partition, 0), self._ends.get(partition, 0))
        return max(0, max(high, end) - read)

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()
