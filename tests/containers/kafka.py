"""A Kafka container for Testcontainers, configured by the environment variables of the public image."""

import time
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.scenarios.scraping import free_port

NAME: Final = "kafka"
"""The broker's host name in the network."""

INTERNAL: Final = f"{NAME}:19092"
"""The value of ``bootstrap.servers`` for clients in other containers."""

_START_S: Final = 240.0


class KafkaContainer(DockerContainer):
    """A single node, for clients on this machine and on its network.

    Testcontainers' own class runs another vendor's image by its start script. This one uses environment variables only,
    so it runs the public image and ours.
    """

    def __init__(self, image: str, network: Network, **properties: str) -> None:
        """Configure the node.

        ``properties`` are variables such as ``KAFKA_MESSAGE_MAX_BYTES`` for ``message.max.bytes``.
        """
        super().__init__(image)
        # The advertised address must be known before the start.
        self._port = free_port()
        self.with_network(network).with_network_aliases(NAME).with_bind_ports(9092, self._port)
        self.with_envs(
            # It ends so soon that optimising its code takes more time than it saves.
            JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1",
            KAFKA_NODE_ID="1",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_LISTENERS="EXTERNAL://:9092,INTERNAL://:19092,CONTROLLER://:9093",
            KAFKA_ADVERTISED_LISTENERS=f"EXTERNAL://{self._host}:{self._port},INTERNAL://{INTERNAL}",
            KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            # The broker completes transactions through its inter-broker listener. The outer listener leads out of the
            # container to a port that is not mapped back, so transactions would hang.
            KAFKA_INTER_BROKER_LISTENER_NAME="INTERNAL",
            KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
            KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
            KAFKA_AUTO_CREATE_TOPICS_ENABLE="false",
            KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="4",
            KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
            KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
            KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS="4",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR="1",
            KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
            # A single node has no other node to hand over to.
            KAFKA_CONTROLLED_SHUTDOWN_ENABLE="false",
            **properties,
        )

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``bootstrap.servers`` for clients on this machine."""
        return f"{self._host}:{self._port}"

    @property
    def _host(self) -> str:
        return self.get_docker_client().host()

    def start(self) -> Self:
        """Start it and return when it answers.

        Raises:
            AssertionError: it ended or did not answer in time; the message is the end of its log.
        """
        super().start()
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        end = time.monotonic() + _START_S
        while True:
            try:
                if client.list_topics(timeout=1).brokers:
                    return self
            except KafkaException:
                self.reload()
                assert self.status == "running", self.log_tail
                assert time.monotonic() < end, self.log_tail

    @property
    def log_tail(self) -> str:
        """The end of its log."""
        out, error = self.get_logs()
        return f"Kafka is {self.status}:\n{(out + error).decode(errors='replace')[-3000:]}"
