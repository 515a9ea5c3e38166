"""The numbers of partitions of given topics, asked for again and again. The cluster may have many other topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from kafka_redelivery.transport.admin.topic_rights import ABSENT
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.opening import open_admin

_INTERVAL_S = 5.0
_TIMEOUT_S = 4.0
_SUBJECT = "topics"


class TopicWatch:
    """Asks Kafka without waiting for its answer. Not thread-safe."""

    def __init__(
        self, kafka: Mapping[str, ConfigValue], report: Callable[[str, str | None], object] = lambda *_: None
    ) -> None:
        """Keep the settings; the client connects with the first request, one interval from now.

        Args:
            kafka: the client settings.
            report: receives that Kafka does not answer, and ``None`` when it answers.
        """
        self._config = admin_config(kafka)
        self._report = report
        self._client: AdminClient | None = None
        self._pending: dict[str, Future[TopicDescription]] = {}
        self._ask_at_s = time.monotonic() + _INTERVAL_S

    def poll(self, topics: Iterable[str], known: Mapping[str, int]) -> dict[str, int] | None:
        """Return a new answer: those of the topics that exist, with their numbers of partitions.

        A known topic that may not be described any more keeps its number.

        Args:
            topics: what the next request asks for, if it is time for one.
            known: the topics that are known to exist, with their numbers of partitions.

        Returns:
            ``None`` if there is no new answer, or Kafka has not answered in time.
        """
        if self._pending:
            return self._take_answer(known) if all(future.done() for future in self._pending.values()) else None
        now_s = time.monotonic()
        if now_s >= self._ask_at_s:
            self._ask_at_s = now_s + _INTERVAL_S
            if self._client is None:
                self._client = open_admin(self._config, admin_log)
            wanted = sorted(set(topics))
            if wanted:
                self._pending = self._client.describe_topics(TopicCollection(wanted), request_timeout=_TIMEOUT_S)
        return None

    def _take_answer(self, known: Mapping[str, int]) -> dict[str, int] | None:
        answers, self._pending = self._pending, {}
        found = {}
        for topic, answer in answers.items():
            try:
                found[topic] = len(answer.result().partitions)
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic in known:
                    found[topic] = known[topic]
                elif error.code() not in ABSENT:
                    self._report(_SUBJECT, f"the topics cannot be described: {error.str()}")
                    return None
        self._report(_SUBJECT, None)
        return found
