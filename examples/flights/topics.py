"""Reading and writing topics from outside: what a user of Kafka does without this project."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights.errors import KafkaSilentError
from transport.protocols import Message

_log = logging.getLogger("flights.kafka")

_ANSWER_S: Final = 30.0
_SILENCE_S: Final = 60.0
_MOST: Final = 5000
_WAIT_S: Final = 0.2


class Follower:
    """All committed records of some topics, from their first offset on. Joins no group. Not thread-safe."""

    def __init__(self, servers: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(_reading(servers, "flights-demo"), logger=_log)
        known = _metadata(self._consumer)
        places = [(topic, number) for topic in topics for number in known[topic]]
        self._unread = set(places)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in places])

    def fetch(self, timeout_s: float = 0.0) -> list[Message]:
        """What is there now; waits for the first."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        return _good([first, *self._consumer.consume(_MOST, 0)], self._unread)

    def rest(self) -> Iterator[Message]:
        """Everything up to the end of every partition.

        Raises:
            KafkaSilentError: nothing came for a minute.
        """
        yield from _until_read(self._consumer, self._unread)

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()


def read_all(servers: str, topics: Iterable[str]) -> Iterator[Message]:
    """All committed records of some topics.

    Raises:
        KafkaSilentError: nothing came for a minute.
    """
    follower = Follower(servers, topics)
    try:
        yield from follower.rest()
    finally:
        follower.close()


def read_as_group(servers: str, topic: str, group: str) -> Iterator[Message]:
    """What a new consumer group sees of a topic until it has reached the end.

    Raises:
        KafkaSilentError: nothing came for a minute.
    """
    consumer = Consumer({**_reading(servers, group), "auto.offset.reset": "earliest"}, logger=_log)
    try:
        unread = {(topic, number) for number in _metadata(consumer)[topic]}
        consumer.subscribe([topic])
        yield from _until_read(consumer, unread)
    finally:
        consumer.close()


class Sender:
    """A producer that notices when a record did not arrive."""

    def __init__(self, servers: str) -> None:
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # as Java clients choose it
                "linger.ms": 5,
                "compression.type": "lz4",
            },
            logger=_log,
        )

    def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Hand one record over; waits while the client's own queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._reported)
            except BufferError:
                self._producer.poll(_WAIT_S)
            else:
                return

    def look(self) -> None:
        """Take in what has been reported.

        Raises:
            KafkaSilentError: a record was not written.
        """
        self._producer.poll(0)
        if self._failure is not None:
            raise KafkaSilentError("a record could not be written", self._failure.str())

    def flush(self) -> None:
        """Wait until everything is written.

        Raises:
            KafkaSilentError: it is not.
        """
        left = self._producer.flush(_SILENCE_S)
        self.look()
        if left:
            raise KafkaSilentError(f"{left} records could not be written", f"no answer within {_SILENCE_S:g} s")

    def _reported(self, error: KafkaError | None, _message: confluent_kafka.Message) -> None:
        if error is not None:
            self._failure = error


def create_topics(servers: str, partitions: dict[str, int]) -> None:
    """Create topics that are the demo's own; the group's are made by ``redelivery topology apply``.

    Raises:
        KafkaSilentError: one could not be created.
    """
    admin = AdminClient({"bootstrap.servers": servers}, logger=_log)
    wanted = [NewTopic(name, number, 1) for name, number in partitions.items()]
    for name, created in admin.create_topics(wanted, operation_timeout=_ANSWER_S).items():
        try:
            created.result(_ANSWER_S)
        except KafkaException as error:
            raise KafkaSilentError(f"the topic {name} cannot be created", error.args[0].str()) from error


def _reading(servers: str, group: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # The end of a partition is told by an empty answer, which by default takes half a second.
        "fetch.wait.max.ms": 50,
    }


def _metadata(consumer: Consumer) -> dict[str, Sequence[int]]:
    topics = consumer.list_topics(timeout=_ANSWER_S).topics
    return {name: sorted(topic.partitions) for name, topic in topics.items()}


def _until_read(consumer: Consumer, unread: set[tuple[str, int]]) -> Iterator[Message]:
    silent_s = 0.0
    while unread:
        first = consumer.poll(_WAIT_S)
        if first is None:
            silent_s += _WAIT_S
            if silent_s >= _SILENCE_S:
                places = ", ".join(f"{topic}-{number}" for topic, number in sorted(unread))
                raise KafkaSilentError(f"the end of {places} was not reached", f"nothing came for {_SILENCE_S:g} s")
            continue
        silent_s = 0.0
        yield from _good([first, *consumer.consume(_MOST, 0)], unread)


def _good(messages: Iterable[confluent_kafka.Message], unread: set[tuple[str, int]]) -> list[Message]:
    """The records among what came; partitions whose end came are struck off ``unread``."""
    good = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            unread.discard((message.topic() or "", message.partition() or 0))
        elif error.fatal() or not error.retriable():
            raise KafkaSilentError("a topic cannot be read", error.str())
    return cast("list[Message]", good)  # without an error, topic, partition and offset are never None
