"""A Kafka in a container, as Testcontainers runs it, by the environment of the public image."""

import socket
import time
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

NAME: Final = "kafka"
"""Its name in the network."""

INTERNAL: Final = f"{NAME}:19092"
"""What a client's ``bootstrap.servers`` must say in another container."""

_START_S: Final = 90.0


class KafkaContainer(DockerContainer):
    """One node, for clients on this machine and for those in the network.

    Testcontainers' own class runs another vendor's image by that image's own start script. Here the environment alone
    decides, so it runs the public image and ours.
    """

    def __init__(self, image: str, network: Network, **properties: str) -> None:
        """``properties`` are environment variables: ``KAFKA_`` and the property in capitals, ``_`` for ``.``."""
        super().__init__(image)
        # The address that is advertised has to be known before it starts.
        self._port = _free_port()
        self.with_network(network).with_network_aliases(NAME).with_bind_ports(9092, self._port)
        self.with_envs(
            KAFKA_NODE_ID="1",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_LISTENERS="EXTERNAL://:9092,INTERNAL://:19092,CONTROLLER://:9093",
            KAFKA_ADVERTISED_LISTENERS=f"EXTERNAL://{self._host}:{self._port},INTERNAL://{INTERNAL}",
            KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            # The broker finishes transactions through the listener it calls itself by. The outer one leads out of the
            # container, to a port that nobody maps back in: transactions would hang.
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
            # One node has nobody to hand over to.
            KAFKA_CONTROLLED_SHUTDOWN_ENABLE="false",
            **properties,
        )

    @property
    def bootstrap_servers(self) -> str:
        """What a client's ``bootstrap.servers`` must say on this machine."""
        return f"{self._host}:{self._port}"

    @property
    def _host(self) -> str:
        return self.get_docker_client().host()

    def start(self) -> Self:
        """Start it, and return when it answers.

        Raises:
            AssertionError: it ended or did not answer in time; what it said is the message.
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
                assert self.status == "running", self.said
                assert time.monotonic() < end, self.said

    @property
    def said(self) -> str:
        """The end of its log."""
        out, error = self.get_logs()
        return f"Kafka is {self.status}:\n{(out + error).decode(errors='replace')[-3000:]}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
