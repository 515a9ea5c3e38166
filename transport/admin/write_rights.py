"""What a producer cannot write. A transaction that fails for a right, a topic or a partition does not name it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation, ConfigResource, TopicDescription

from kafka_redelivery.topology.cluster.facts import MAX_MESSAGE
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.topic_rights import describe_topics, is_led
from kafka_redelivery.transport.client_config import Config, identity_config
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import ProducerRecord

_log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0


class WriteRights:
    """Asks the brokers what a producer's user can write. Connects with the first question. Not thread-safe."""

    def __init__(self, producer: Config) -> None:
        """Use the user of a producer with these settings."""
        self._config = identity_config(producer)
        self._calls: AdminCalls | None = None
        self.partition_counts: dict[str, int] = {}
        """Numbers of partitions of the topics that were asked for and exist."""

    def unwritable(self, records: Sequence[ProducerRecord]) -> dict[int, KafkaError]:
        """Return the indexes of the records that cannot be written, each with the cause.

        Their topic may not be written or does not exist, or their partition has no leader. If the partitioner chooses
        the partition of a record, each partition of its topic needs a leader. A topic whose rights the brokers do not
        report can be written. Without an answer, every record can.
        """
        wanted = {record.topic for record in records}
        try:
            topics = self._ask(wanted) if wanted else {}
        except TransportError as error:
            _log.warning("it is unknown which topic cannot be written: %s", error)
            return {}
        found = ((index, _cause(topics[record.topic], record.partition)) for index, record in enumerate(records))
        return {index: cause for index, cause in found if cause is not None}

    def smallest_limit(self, topics: Iterable[str]) -> int | None:
        """Return the smallest ``max.message.bytes`` of some topics; ``None`` if the user may not know it."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(set(topics))]
        calls = self._connected()
        try:
            answers = calls.each("read the limits of topics", lambda: calls.client.describe_configs(resources))
        except TransportError as error:
            _log.warning("it is unknown how large a batch may be: %s", error)
            return None
        return min(int(entries[MAX_MESSAGE].value) for entries in answers.values())

    def _connected(self) -> AdminCalls:
        if self._calls is None:
            self._calls = AdminCalls(self._config, timeout_s=_TIMEOUT_S)
        return self._calls

    def _ask(self, topics: set[str]) -> dict[str, TopicDescription | int]:
        described = describe_topics(self._connected(), topics)
        for topic, description in described.items():
            if isinstance(description, TopicDescription):
                self.partition_counts[topic] = len(description.partitions)
        return described


def _cause(described: TopicDescription | int, partition: int | None) -> KafkaError | None:
    """Return why a record for a partition of a topic cannot be written; ``None`` if it can."""
    if isinstance(described, int):
        return KafkaError(described)  # the right to write includes the right to describe
    operations = described.authorized_operations
    if operations is not None and AclOperation.WRITE not in operations:
        return KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    leaderless = [each.id for each in described.partitions if not is_led(each)]
    if partition in leaderless or (partition is None and leaderless):
        numbers = ", ".join(map(str, leaderless))
        return KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no leader of its partition(s) {numbers} is available")
    return None
