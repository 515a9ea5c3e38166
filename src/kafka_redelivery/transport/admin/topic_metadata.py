"""Which topics exist. Producing cannot find out: it creates the topic, or waits half a minute and fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.admin.topic_rights import describe_topics
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.errors import TransportError

_TIMEOUT_S = 10.0
_MIN_AGE_S = 5.0
"""How long an answer, or the lack of one, holds before a missing topic is asked for again."""


class TopicMetadataCache:
    """Topics and their numbers of partitions. Thread-safe; asks the cluster only for a topic that it does not know."""

    def __init__(self, kafka: Mapping[str, ConfigValue]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        """When Kafka last answered, or failed to, for a topic."""

        self._problems: dict[str, TransportError] = {}
        """Why Kafka has said nothing of a topic. Such a topic does not count as missing."""

    def forget(self, topic: str) -> None:
        """Ask the cluster again before this topic counts as one that exists."""
        with self._lock:
            self._counts.pop(topic, None)

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """See :class:`TopicMetadata`.

        Raises:
            TransportError: the cluster does not answer, or the user may not describe the topic.
        """
        count = self._counts.get(topic)
        if count is not None and wanted < count:
            return count
        with self._lock:
            if time.monotonic() - self._asked_s.get(topic, -_MIN_AGE_S) >= _MIN_AGE_S:
                self._ask(topic)
            if topic in self._problems:
                raise self._problems[topic].with_traceback(None)  # each raise would add to it
            return self._counts.get(topic)

    def _ask(self, topic: str) -> None:
        now = time.monotonic()
        self._asked_s = {each: at_s for each, at_s in self._asked_s.items() if now - at_s < _MIN_AGE_S}
        self._problems = {each: problem for each, problem in self._problems.items() if each in self._asked_s}
        try:
            described = describe_topics(self._calls, [topic], operations=False)[topic]
        except TransportError as error:
            self._problems[topic] = error
        else:
            self._counts.pop(topic, None)
            if described == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                self._problems[topic] = NotAuthorisedError(
                    f"describe topic {topic}",
                    "it does not exist, or this user may not describe it; create it, or grant the right Describe on it "
                    "(`redelivery topology acls` prints the command if it is listed under 'outputs')",
                )
            elif not isinstance(described, int):
                self._counts[topic] = len(described.partitions)
        self._asked_s[topic] = time.monotonic()
