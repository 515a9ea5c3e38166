"""Partitions and topics that cannot be read at present, and when each of them is tried again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, TopicDescription

from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.errors import ClientSettingsError, ReaderError, TopicForbiddenError
from kafka_redelivery.transport.opening import LastingAdmin
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 10.0


class UnfetchablePartitions:
    """Halts each partition alone for which Kafka returns an error, or damaged records. Used by one thread.

    It is fetched again after growing pauses.

    A partition stays in :attr:`errors` until a record of it, or its end, is fetched.
    """

    def __init__(self) -> None:
        """Start without partitions."""
        self._errors: dict[Partition, ReaderError] = {}
        self._backoffs: dict[Partition, Backoff] = {}
        self._halted: set[Partition] = set()
        """The partitions that are not fetched at present. One that is being tried is not among them."""

    @property
    def errors(self) -> Mapping[Partition, ReaderError]:
        """The partitions, each with what is wrong and how to fix it."""
        return self._errors

    def is_halted(self, partition: Partition) -> bool:
        """Whether the partition is not fetched at present."""
        return partition in self._halted

    def add(self, partition: Partition, error: ReaderError) -> None:
        """Halt a partition, and log the cause if it is a new one."""
        self._backoffs[partition] = self._backoffs.get(partition, Backoff()).failed(monotonic())
        self._halted.add(partition)
        if str(self._errors.get(partition)) != str(error):
            _log.error("%s; it is tried again after pauses of up to 30 s, other partitions go on", error)
        self._errors[partition] = error

    def take_due(self) -> list[Partition]:
        """Return the partitions that are to be fetched again now. They are no longer halted."""
        now_s = monotonic()
        due = [each for each, backoff in self._backoffs.items() if each in self._halted and backoff.is_due(now_s)]
        self._halted.difference_update(due)
        return due

    def fetched(self, partitions: AbstractSet[Partition]) -> None:
        """Drop those of the partitions, of which a record or the end was fetched, that are not halted."""
        for partition in (partitions & self._errors.keys()) - self._halted:
            self.drop(partition)
            _log.info("%s-%d goes on: it can be fetched again", *partition)

    def drop(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned, is assigned anew, or is halted for another cause."""
        self._errors.pop(partition, None)
        self._backoffs.pop(partition, None)
        self._halted.discard(partition)

    def clear(self) -> None:
        """Drop all partitions."""
        for partition in list(self._errors):
            self.drop(partition)


class ForbiddenTopics:
    """Keeps the topics that the brokers refuse. Never waits for them. Used by one thread.

    The client itself fetches a refused partition again, and joins a topic again that it could not describe, but does
    not say so. So this asks after growing pauses which topics may be read.
    """

    def __init__(self, admin: Config) -> None:
        """Keep the settings of an admin client, which connects when it is needed."""
        self._admin = LastingAdmin(admin)
        self._problems: dict[str, str] = {}
        self._asked: dict[str, Future[TopicDescription]] = {}
        self._backoff = Backoff()

    @property
    def problems(self) -> Mapping[str, str]:
        """The refused topics, each with what is wrong and how to fix it."""
        return self._problems

    def add(self, error: TopicForbiddenError) -> None:
        """Note and log that a topic is refused."""
        if error.topic not in self._problems:
            problem = self._problems[error.topic] = f"{error}; its partitions wait and go on by themselves"
            _log.error(problem)
            self._backoff = Backoff().failed(monotonic())

    def keep(self, topics: Collection[str]) -> None:
        """Drop all other topics, because they are read no more."""
        self._problems = {topic: problem for topic, problem in self._problems.items() if topic in topics}

    def poll(self) -> None:
        """Ask about the topics if that is due, and drop those that may be read, or do not exist any more."""
        if not self._problems:
            return
        if not self._asked:
            if self._backoff.is_due(monotonic()):
                self._ask()
            return
        if not all(answer.done() for answer in self._asked.values()):
            return
        for topic, answer in self._asked.items():
            if topic in self._problems and _is_over(answer):
                del self._problems[topic]
                _log.info("topic %s is no longer refused", topic)
            self._admin.answered(answer.exception())
        if not self._problems:
            self._admin.close()
        self._asked = {}
        self._backoff = self._backoff.failed(monotonic())

    def _ask(self) -> None:
        try:
            client = self._admin.client()
        except ClientSettingsError as error:
            self._backoff = self._backoff.failed(monotonic())
            _log.warning("it is not known now which topics may be read: %s", error)
            return
        self._asked = client.describe_topics(
            TopicCollection(list(self._problems)),
            include_authorized_operations=True,
            request_timeout=_REQUEST_TIMEOUT_S,
        )


def _is_over(answer: Future[TopicDescription]) -> bool:
    try:
        operations = answer.result().authorized_operations
    except KafkaException as exception:
        missing: bool = exception.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return missing
    return operations is None or AclOperation.READ in operations
