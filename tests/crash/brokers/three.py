"""Three Kafka nodes, and who leads what on them."""

import socket
import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicMetadata

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.crash.brokers.nodes import Nodes
from tests.scenarios.waiting import until

HEAP_MB: Final = 256
_ANSWER_S: Final = 30.0
_OFFSETS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
_METADATA: Final = "__cluster_metadata"
_DESCRIBE_QUORUM: Final = 55
_START_S: Final = 400.0

_T = TypeVar("_T")


class Three:
    """The nodes as an operator sees them. Each question is asked anew."""

    def __init__(self, kafka: Nodes) -> None:
        self.kafka = kafka
        self.nodes = kafka.nodes
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition."""
        return until(despite_errors(lambda: self._leader(topic, partition)), f"{topic}-{partition} has a leader") or 0

    def controller(self) -> int:
        """Return the active controller; clients are told of any node instead."""
        return until(lambda: next(filter(None, map(_controller, self._running())), 0), "there is a controller")

    def group_coordinator(self, group: str) -> int:
        """Return the node that coordinates a consumer group.

        Not by a question about the group: the client may go on asking a former coordinator that was killed.
        """
        return self._coordinator(_OFFSETS, group)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the node that coordinates the transactions of an id."""
        return self._coordinator(_TRANSACTIONS, transactional_id)

    def _coordinator(self, topic: str, name: str) -> int:
        return self.leader(topic, _java_hash(name) % len(self._topics()[topic].partitions))

    def in_sync(self) -> bool:
        """Whether all replicas of all partitions are in sync."""
        topics = self._topics().values()
        return len(self._running()) == len(self.nodes) and all(
            len(partition.isrs) == len(partition.replicas) and partition.leader > 0
            for topic in topics
            for partition in topic.partitions.values()
        )

    def heal(self) -> None:
        """Start the nodes that do not run, and wait until all replicas are in sync."""
        self.kafka.start()
        until(despite_errors(self.in_sync), "all replicas are in sync", within_s=_START_S)

    def restart(self, node: int) -> None:
        """Stop a node with a controlled shutdown, start it and wait until all replicas are in sync."""
        self.nodes[node].stop()
        self.heal()

    def lead_by_preference(self, topics: Iterable[str]) -> int:
        """Make the first replica of each partition its leader, as it was at first; return how many leaders move."""
        wanted = set(topics)
        moving = self._led_by_others(wanted)
        if moving:
            self._admin.elect_leaders(ElectionType.PREFERRED, moving).result(_ANSWER_S)
            until(despite_errors(lambda: not self._led_by_others(wanted)), "the first replicas lead")
        return len(moving)

    def _led_by_others(self, topics: set[str]) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, topic in self._topics().items()
            if name in topics
            for number, partition in topic.partitions.items()
            if partition.leader != partition.replicas[0]
        ]

    def _leader(self, topic: str, partition: int) -> int:
        described = self._admin.describe_topics(TopicCollection([topic]))[topic].result(_ANSWER_S)
        leader = described.partitions[partition].leader
        return 0 if leader is None else max(leader.id, 0)

    def _topics(self) -> dict[str, TopicMetadata]:
        return dict(self._admin.list_topics(timeout=_ANSWER_S).topics)

    def _running(self) -> list[EmbeddedKafka]:
        return [self.nodes[number] for number in self.kafka.running]


def despite_errors(question: Callable[[], _T]) -> Callable[[], _T | None]:
    """Return the question with ``None`` as its answer while a node has just gone or come."""

    def asked() -> _T | None:
        try:
            return question()
        except (KafkaException, TimeoutError):
            return None

    return asked


def _controller(node: EmbeddedKafka) -> int:
    """Ask a node for the leader of the metadata log (DescribeQuorum 0), which no client of Python can ask for."""
    topic = bytes([2, len(_METADATA) + 1]) + _METADATA.encode() + bytes([2, 0, 0, 0, 0, 0, 0, 0])
    request = struct.pack(">hhihb", _DESCRIBE_QUORUM, 0, 1, -1, 0) + topic
    host, _, port = node.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), _ANSWER_S) as connection, connection.makefile("rb") as answer:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", answer.read(4))
        body = answer.read(size)
    # Correlation id and tags; error; one topic with its name; one partition with its number and error; the leader.
    name = 4 + 1 + 2 + 1
    leader = name + 1 + len(_METADATA) + 1 + 4 + 2
    (found,) = struct.unpack_from(">i", body, leader)
    return max(int(found), 0)


def _java_hash(text: str) -> int:
    """Return ``Utils.abs(text.hashCode())`` of Kafka."""
    found = 0
    for character in text:
        found = (31 * found + ord(character)) & 0xFFFFFFFF
    return found & 0x7FFFFFFF
