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

_TIMEOUT_S = 10.0
_MIN_AGE_S = 5.0
"""Age of the cached topics below which a missing topic is not asked for again."""


class TopicMetadataCache:
    """Topics and their numbers of partitions. Thread-safe; asks the cluster only for a topic that it does not know."""

    def __init__(self, kafka: Mapping[str, ConfigValue]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        self._hidden: set[str] = set()
        """Topics that the user may not describe, if they exist."""

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
            now = time.monotonic()
            if now - self._asked_s.get(topic, -_MIN_AGE_S) >= _MIN_AGE_S:
                self._asked_s = {each: at_s for each, at_s in self._asked_s.items() if now - at_s < _MIN_AGE_S}
                self._asked_s[topic] = now
                described = describe_topics(self._calls, [topic], operations=False)[topic]
                self._counts.pop(topic, None)
                self._hidden.discard(topic)
                if described == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    self._hidden.add(topic)
                elif not isinstance(described, int):
                    self._counts[topic] = len(described.partitions)
            if topic in self._hidden:
                raise NotAuthorisedError(
                    f"describe topic {topic}",
                    "it does not exist, or this user may not describe it; create it, or grant the right Describe on it "
                    "(`redelivery topology acls` prints the command if it is listed under 'outputs')",
                )
            return self._counts.get(topic)
