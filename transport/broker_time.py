"""What time it is by the brokers' clock.

Kafka has no request for that. But it stamps with its own clock what it writes about consumer groups: so a commit is
made, and the newest entry of the partition that keeps the group's commits is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from topology.progress import Checkpoint
from transport.admin_calls import AdminCalls, text_of
from transport.admin_errors import NotAuthorisedError
from transport.client_config import Value, admin_config
from transport.errors import TransportError
from transport.protocols import Group, Partition

OFFSETS_TOPIC = "__consumer_offsets"
_TIMEOUT_S = 10.0


class NoTimeError(TransportError):
    """The brokers' time cannot be had now, for example during a rebalance. Ask again later."""


class BrokerTime:
    """Asks a broker for its time. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, Value], group: str, commits: Group) -> None:
        """Prepare.

        Args:
            kafka: the client settings.
            group: the consumer group that ``commits`` is a member of.
            commits: makes a commit.
        """
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
        self._group = group
        self._commits = commits

    def ask(self, checkpoints: Mapping[Partition, Checkpoint]) -> int | None:
        """The time (epoch ms), or a little less; ``None`` if the user may not know it.

        Args:
            checkpoints: to be committed for it, at least one.

        Raises:
            NoTimeError: the commit did not succeed.
            TransportError: the cluster does not answer.
        """
        try:
            self._commits.commit(checkpoints)
        except KafkaException as error:
            raise NoTimeError(text_of(error)) from error
        topic = self._calls.metadata().topics.get(OFFSETS_TOPIC)
        if topic is None or topic.error is not None or not topic.partitions:
            return None
        place = TopicPartition(OFFSETS_TOPIC, partition_of(self._group, len(topic.partitions)))
        newest = OffsetSpec.max_timestamp()
        try:
            answers = self._calls.each("ask for the time", lambda: self._calls.client.list_offsets({place: newest}))
        except NotAuthorisedError:
            return None
        stamp = next(iter(answers.values())).timestamp
        return stamp if stamp > 0 else None


def partition_of(group: str, partitions: int) -> int:
    """The partition of the topic of offsets that a group's commits are in.

    Source: Kafka takes Java's ``String.hashCode()``, without its sign bit, modulo the number of partitions.
    """
    code = 0
    units = group.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % partitions
