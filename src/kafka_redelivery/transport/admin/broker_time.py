"""The time by the brokers' clock.

Kafka has no request for it. But a broker stamps the commits of a consumer group with its own clock, so this module
makes a commit and then asks for the newest timestamp in the partition of ``__consumer_offsets`` that keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafka_redelivery.topology.cluster.facts import OFFSETS_TOPIC
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.admin.topics import describe_topics
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.kafka_errors import message_of
from kafka_redelivery.transport.protocols import GroupMember, Partition

_TIMEOUT_S = 10.0


class BrokerTimeUnavailableError(TransportError):
    """The brokers' time is not available now, for example during a rebalance. Ask again later."""


class BrokerTime:
    """Asks a broker for its time. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, ConfigValue], group: str, member: GroupMember) -> None:
        """Keep the arguments; the client connects with the first request.

        Args:
            kafka: the client settings.
            group: the consumer group.
            member: a member of the group, which makes the commit.
        """
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
        self._group = group
        self._member = member

    def ask(self, checkpoints: Mapping[Partition, Checkpoint]) -> int | None:
        """Return the time of the commit (epoch ms), which is a little in the past; ``None`` if the user may not see it.

        Args:
            checkpoints: the offsets to commit, at least one.

        Raises:
            BrokerTimeUnavailableError: the commit failed, or Kafka does not know its time yet.
            TransportError: the cluster does not answer.
        """
        try:
            self._member.commit(checkpoints)
        except KafkaException as error:
            raise BrokerTimeUnavailableError(message_of(error)) from error
        topic = describe_topics(self._calls, [OFFSETS_TOPIC], operations=False)[OFFSETS_TOPIC]
        if isinstance(topic, int):
            return None
        partition = TopicPartition(OFFSETS_TOPIC, partition_of(self._group, len(topic.partitions)))
        newest = OffsetSpec.max_timestamp()
        try:
            answers = self._calls.each(
                "ask for the brokers' time", lambda: self._calls.client.list_offsets({partition: newest})
            )
        except NotAuthorisedError:
            return None
        stamp: int = next(iter(answers.values())).timestamp
        if stamp <= 0:
            # Kafka sometimes answers -1 directly after a commit; the partition holds that commit, so it has a time.
            raise BrokerTimeUnavailableError(f"{OFFSETS_TOPIC}-{partition.partition} has no newest timestamp yet")
        return stamp


def partition_of(group: str, partitions: int) -> int:
    """Return the partition of the offsets topic that keeps the commits of a group.

    Source: Kafka's ``GroupCoordinatorService`` takes the absolute value of Java's ``String.hashCode()``, and 0 for
    ``Integer.MIN_VALUE``, modulo the number of partitions.
    """
    code = 0
    units = group.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    absolute = code if code < 2**31 else 2**32 - code
    return absolute % 2**31 % partitions
