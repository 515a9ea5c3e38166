"""Topics that a running consumer may not read, and whether it may by now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from time import monotonic

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, TopicDescription

from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.errors import TopicForbiddenError
from kafka_redelivery.transport.opening import open_admin

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_REQUEST_TIMEOUT_S = 10.0


class ForbiddenTopics:
    """Keeps the topics that the brokers refuse. Never waits for them. Used by one thread.

    The client itself fetches a refused partition again, and joins a topic again that it could not describe, but does
    not say so. So this asks after growing pauses which topics may be read.
    """

    def __init__(self, admin: Config) -> None:
        """Keep the settings of an admin client, which connects when it is needed."""
        self._config = admin
        self._client: AdminClient | None = None
        self._problems: dict[str, str] = {}
        self._asked: dict[str, Future[TopicDescription]] = {}
        self._pause_s = _FIRST_PAUSE_S
        self._next_s = 0.0

    @property
    def problems(self) -> Mapping[str, str]:
        """The refused topics, each with what is wrong and how to fix it."""
        return self._problems

    def add(self, error: TopicForbiddenError) -> None:
        """Note and log that a topic is refused."""
        if error.topic not in self._problems:
            problem = self._problems[error.topic] = f"{error}; its partitions wait and go on by themselves"
            _log.error(problem)
            self._pause_s, self._next_s = _FIRST_PAUSE_S, monotonic() + _FIRST_PAUSE_S

    def poll(self) -> None:
        """Ask about the topics if that is due, and drop those that may be read."""
        if not self._problems:
            return
        if not self._asked:
            if monotonic() >= self._next_s:
                self._ask()
            return
        if not all(answer.done() for answer in self._asked.values()):
            return
        for topic, answer in self._asked.items():
            if topic in self._problems and _is_readable(answer):
                del self._problems[topic]
                _log.info("topic %s may be read again", topic)
        self._asked = {}
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._next_s = monotonic() + self._pause_s
        if not self._problems:
            self._client = None

    def _ask(self) -> None:
        if self._client is None:
            self._client = open_admin(self._config)
        self._asked = self._client.describe_topics(
            TopicCollection(list(self._problems)),
            include_authorized_operations=True,
            request_timeout=_REQUEST_TIMEOUT_S,
        )


def _is_readable(answer: Future[TopicDescription]) -> bool:
    try:
        operations = answer.result().authorized_operations
    except KafkaException:
        return False
    return operations is None or AclOperation.READ in operations
