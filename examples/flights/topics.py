"""Reads and writes topics with the plain Kafka client, without kafka-redelivery."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights.errors import KafkaAccessError
from kafka_redelivery.transport.protocols import Message

_log = logging.getLogger("flights.kafka")

_TIMEOUT_S: Final = 30.0
_IDLE_TIMEOUT_S: Final = 60.0
_MAX_RECORDS: Final = 5000
_POLL_S: Final = 0.2


class Follower:
    """Reads all committed records of topics from their first offset. Joins no group. Not thread-safe."""

    def __init__(self, servers: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(_consumer_settings(servers, "flights-demo"), logger=_log)
        known = _metadata(self._consumer)
        partitions = [(topic, number) for topic in topics for number in known[topic]]
        self._unread = set(partitions)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in partitions])

    def fetch(self, timeout_s: float = 0.0) -> list[Message]:
        """Available records; waits up to ``timeout_s`` for the first."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        return _records_of([first, *self._consumer.consume(_MAX_RECORDS, 0)], self._unread)

    def rest(self) -> Iterator[Message]:
        """All records up to the end of every partition.

        Raises:
            KafkaAccessError: no record arrived for a minute.
        """
        yield from _until_read(self._consumer, self._unread)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def read_all(servers: str, topics: Iterable[str]) -> Iterator[Message]:
    """All committed records of topics.

    Raises:
        KafkaAccessError: no record arrived for a minute.
    """
    follower = Follower(servers, topics)
    try:
        yield from follower.rest()
    finally:
        follower.close()


def read_as_group(servers: str, topic: str, group: str) -> Iterator[Message]:
    """All records that a new consumer group sees in a topic.

    Raises:
        KafkaAccessError: no record arrived for a minute.
    """
    consumer = Consumer({**_consumer_settings(servers, group), "auto.offset.reset": "earliest"}, logger=_log)
    try:
        unread = {(topic, number) for number in _metadata(consumer)[topic]}
        consumer.subscribe([topic])
        yield from _until_read(consumer, unread)
    finally:
        consumer.close()


class Sender:
    """A producer that raises if a record was not written."""

    def __init__(self, servers: str) -> None:
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # as in Java clients
                "linger.ms": 5,
                "compression.type": "lz4",
            },
            logger=_log,
        )

    def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Queue one record; waits while the client's queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._reported)
            except BufferError:
                self._producer.poll(_POLL_S)
            else:
                return

    def poll(self) -> None:
        """Process delivery reports.

        Raises:
            KafkaAccessError: a record was not written.
        """
        self._producer.poll(0)
        if self._failure is not None:
            raise KafkaAccessError("a record could not be written", self._failure.str())

    def flush(self) -> None:
        """Wait until everything is written.

        Raises:
            KafkaAccessError: a record was not written.
        """
        left = self._producer.flush(_IDLE_TIMEOUT_S)
        self.poll()
        if left:
            raise KafkaAccessError(f"{left} records could not be written", f"no answer within {_IDLE_TIMEOUT_S:g} s")

    def _reported(self, error: KafkaError | None, _message: confluent_kafka.Message) -> None:
        if error is not None:
            self._failure = error


def create_topics(servers: str, partitions: dict[str, int]) -> None:
    """Create the demo's own topics. ``redelivery topology apply`` creates the group's.

    Raises:
        KafkaAccessError: one could not be created.
    """
    admin = AdminClient({"bootstrap.servers": servers}, logger=_log)
    wanted = [NewTopic(name, number, 1) for name, number in partitions.items()]
    for name, created in admin.create_topics(wanted, operation_timeout=_TIMEOUT_S).items():
        try:
            created.result(_TIMEOUT_S)
        except KafkaException as error:
            raise KafkaAccessError(f"the topic {name} cannot be created", error.args[0].str()) from error


def _consumer_settings(servers: str, group: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # An empty response marks the end of a partition; by default it takes half a second.
        "fetch.wait.max.ms": 50,
    }


def _metadata(consumer: Consumer) -> dict[str, Sequence[int]]:
    topics = consumer.list_topics(timeout=_TIMEOUT_S).topics
    return {name: sorted(topic.partitions) for name, topic in topics.items()}


def _until_read(consumer: Consumer, unread: set[tuple[str, int]]) -> Iterator[Message]:
    silent_s = 0.0
    while unread:
        first = consumer.poll(_POLL_S)
        if first is None:
            silent_s += _POLL_S
            if silent_s >= _IDLE_TIMEOUT_S:
                partitions = ", ".join(f"{topic}-{number}" for topic, number in sorted(unread))
                raise KafkaAccessError(
                    f"the end of {partitions} was not reached", f"no record arrived for {_IDLE_TIMEOUT_S:g} s"
                )
            continue
        silent_s = 0.0
        yield from _records_of([first, *consumer.consume(_MAX_RECORDS, 0)], unread)


def _records_of(messages: Iterable[confluent_kafka.Message], unread: set[tuple[str, int]]) -> list[Message]:
    """The records among ``messages``. Removes partitions that have reached their end from ``unread``."""
    good = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            unread.discard((message.topic() or "", message.partition() or 0))
        elif error.fatal() or not error.retriable():
            raise KafkaAccessError("a topic cannot be read", error.str())
    return cast("list[Message]", good)  # without an error, topic, partition and offset are never None
