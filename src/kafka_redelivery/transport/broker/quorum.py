"""The nodes that form a cluster, and the settings that depend on how many they are."""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

HOST: Final = "127.0.0.1"

_REPLICAS: Final = 3
_REGISTRATION_MS: Final = 60_000
"""Kafka's default for one node."""

_COMMON: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        # Writing to a topic that was not created must fail.
        "auto.create.topics.enable": "false",
        # Few partitions of the internal topics are created and loaded quickly.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        # The first member of a group does not wait for others.
        "group.initial.rebalance.delay.ms": "0",
    }
)


@dataclass(frozen=True, slots=True)
class Quorum:
    """The cluster of a node. Each node is broker and controller, so a majority of the nodes has to run.

    Attributes:
        node_id: which of the nodes it is.
        controller_ports: the port of each node for controllers, on ``HOST``, by node id.
        cluster_id: the id of the cluster, which its nodes store when their directories are formatted.
    """

    node_id: int
    controller_ports: Mapping[int, int]
    cluster_id: str

    @property
    def controller_port(self) -> int:
        """The port of the node itself for controllers."""
        return self.controller_ports[self.node_id]

    def properties(self) -> dict[str, str]:
        """Return the broker properties that the nodes share, with the node's id and the addresses of all of them.

        A topic gets three replicas, or as many as there are nodes, of which all but one have to be in sync.
        """
        replicas = min(_REPLICAS, len(self.controller_ports))
        in_sync = max(1, replicas - 1)
        return {
            **_COMMON,
            "node.id": str(self.node_id),
            "controller.quorum.voters": ",".join(
                f"{node}@{HOST}:{port}" for node, port in self.controller_ports.items()
            ),
            # A single node has no other to move leaders to. A controlled shutdown would only leave its partitions
            # without a leader for a moment, in which its coordinator marks transactions as complete without writing
            # their markers (KAFKA-20734, seen in 4.3.1).
            "controlled.shutdown.enable": "true" if replicas > 1 else "false",
            # The first node waits for most of the others, which start after it.
            "initial.broker.registration.timeout.ms": str(len(self.controller_ports) * _REGISTRATION_MS),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(in_sync),
        }


def new_cluster_id() -> str:
    """Return a random id in Kafka's form."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
