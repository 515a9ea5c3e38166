"""What a producer cannot write or commit. A transaction that fails for it names no right, topic or partition."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation, TopicDescription

from kafka_redelivery.topology.cluster.facts import MAX_MESSAGE, MIN_INSYNC
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.topics import describe_topics, is_led, topic_configs
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

        Their topic may not be written or does not exist, or their partition has no leader, or too few replicas in sync.
        If the partitioner chooses the partition of a record, that is so for any partition of its topic. A topic whose
        rights the brokers do not report can be written. Without an answer, every record can.
        """
        wanted = {record.topic for record in records}
        try:
            topics = self._ask(wanted) if wanted else {}
        except TransportError as error:
            _log.warning("it is unknown which topic cannot be written: %s", error)
            self._calls = None  # it may have asked a broker that has died, and would ask it again
            return {}
        least = self._least_in_sync(topics)
        found = (
            (index, _cause(topics[record.topic], record.partition, least.get(record.topic, 0)))
            for index, record in enumerate(records)
        )
        return {index: cause for index, cause in found if cause is not None}

    def unreadable(self, topics: Iterable[str]) -> list[str]:
        """Return the topics whose offsets may not be committed, as far as the brokers report rights."""
        try:
            described = self._ask(set(topics))
        except TransportError as error:
            _log.warning("it is unknown which topic may not be read: %s", error)
            self._calls = None
            return []
        return [topic for topic, each in described.items() if not _may(AclOperation.READ, each)]

    def smallest_limit(self, topics: Iterable[str]) -> int | None:
        """Return the smallest ``max.message.bytes`` of some topics; ``None`` if the user may not know it."""
        return min(map(int, self._properties(topics, MAX_MESSAGE).values()), default=None)

    def _least_in_sync(self, topics: Mapping[str, TopicDescription | int]) -> dict[str, int]:
        """Return ``min.insync.replicas`` of the topics with replicas that are not in sync, as far as the user may."""
        partitions = {name: each.partitions for name, each in topics.items() if isinstance(each, TopicDescription)}
        lagging = [name for name, of in partitions.items() if any(len(each.isr) < len(each.replicas) for each in of)]
        return {name: int(value) for name, value in self._properties(lagging, MIN_INSYNC).items()}

    def _properties(self, topics: Iterable[str], name: str) -> dict[str, str]:
        """Return a property of topics; nothing if the user may not know it."""
        wanted = set(topics)
        try:
            configs = topic_configs(self._connected(), wanted) if wanted else {}
        except TransportError as error:
            _log.warning("%s of topics is unknown: %s", name, error)
            return {}
        return {topic: config[name] for topic, config in configs.items() if name in config}

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


def _may(operation: AclOperation, described: TopicDescription | int) -> bool:
    if isinstance(described, int):
        return described != KafkaError.TOPIC_AUTHORIZATION_FAILED
    return described.authorized_operations is None or operation in described.authorized_operations


def _cause(described: TopicDescription | int, partition: int | None, least_in_sync: int) -> KafkaError | None:
    """Return why a record for a partition of a topic cannot be written; ``None`` if it can.

    Of a topic with fewer replicas than ``min.insync.replicas`` Kafka needs all (``effectiveMinIsr`` of its partitions).
    """
    if isinstance(described, int):
        return KafkaError(described)  # the right to write includes the right to describe
    if not _may(AclOperation.WRITE, described):
        return KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    leaderless = [each.id for each in described.partitions if not is_led(each)]
    if partition in leaderless or (partition is None and leaderless):
        numbers = ", ".join(map(str, leaderless))
        return KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no leader of its partition(s) {numbers} is available")
    few = [each.id for each in described.partitions if len(each.isr) < min(least_in_sync, len(each.replicas))]
    if partition in few or (partition is None and few):
        numbers = ", ".join(map(str, few))
        problem = f"fewer replicas of its partition(s) {numbers} are in sync than {MIN_INSYNC}={least_in_sync}"
        return KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, problem)
    return None
