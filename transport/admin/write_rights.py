"""Which topics a producer can write. A transaction that fails because of a right or a topic does not name it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation, TopicDescription

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.topic_rights import describe_topics
from kafka_redelivery.transport.client_config import Config, identity_config
from kafka_redelivery.transport.errors import TransportError

_log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0


class WriteRights:
    """Asks the brokers for the rights of a producer's user. Connects with the first question. Not thread-safe."""

    def __init__(self, producer: Config) -> None:
        """Use the user of a producer with these settings."""
        self._config = identity_config(producer)
        self._calls: AdminCalls | None = None
        self.partition_counts: dict[str, int] = {}
        """Numbers of partitions of the topics that were asked for and exist."""

    def unwritable(self, topics: Iterable[str]) -> dict[str, int]:
        """Return those of some topics that may not be written or do not exist, each with the error code that says so.

        A topic whose rights the brokers do not report is not among them. Without an answer, none is.
        """
        wanted = sorted(set(topics))
        try:
            return self._ask(wanted) if wanted else {}
        except TransportError as error:
            _log.warning("it is unknown which topic cannot be written: %s", error)
            return {}

    def _ask(self, topics: list[str]) -> dict[str, int]:
        if self._calls is None:
            self._calls = AdminCalls(self._config, timeout_s=_TIMEOUT_S)
        unwritable = {}
        for topic, description in describe_topics(self._calls, topics).items():
            if isinstance(description, TopicDescription):
                self.partition_counts[topic] = len(description.partitions)
                operations = description.authorized_operations
                if operations is not None and AclOperation.WRITE not in operations:
                    unwritable[topic] = KafkaError.TOPIC_AUTHORIZATION_FAILED
            else:
                unwritable[topic] = description  # the right to write includes the right to describe
        return unwritable
