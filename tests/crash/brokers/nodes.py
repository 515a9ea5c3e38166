"""A cluster of several Apache Kafka nodes on loopback, each a process of its own that is broker and controller.

Topics have three replicas, of which two must be in sync, and the cluster works as long as most of its nodes run.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from confluent_kafka.admin import ClusterMetadata

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.broker.embedded import (
    FREE_PORT_ATTEMPTS,
    HOST,
    PORT_TAKEN,
    START_SECONDS,
    BrokerStartError,
    EmbeddedKafka,
    PortTakenError,
    free_port,
    new_cluster_id,
)

_PORTS: Final = range(20_000, 32_000)
"""Below the ports that the system gives to outgoing connections, so that a node which restarts gets its port again."""

_REPLICAS: Final = 3
_REGISTRATION_MS: Final = 60_000
"""Kafka's default for one node."""

_ANSWER_S: Final = 10.0
_CHECK_SECONDS: Final = 0.1
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_LISTENERS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType({})


class Nodes:
    """Several Apache Kafka nodes in KRaft mode, numbered from 1.

    Not thread-safe. As a context manager it starts on entry and stops on exit. When the process that started it ends,
    even by SIGKILL, all nodes end too and their temporary directories are deleted.

    Args:
        number: how many; of three, one may fail.
        data_dir: gets a directory ``1``, ``2``, ... for each node; kept, so that a node that is started again has the
            same data. ``None`` uses temporary directories: a node that ends loses its data.
        properties: broker properties of all nodes; they override the defaults.
        cut: by node id, where its further listener ``CUT`` listens, and the address that it advertises.
        heap_mb: maximum heap of each node in MiB.

    Attributes:
        nodes: the nodes by id; each can be stopped, killed and started alone. Empty before ``start``.
    """

    def __init__(
        self,
        number: int = 3,
        *,
        data_dir: Path | None = None,
        properties: Mapping[str, str] = _NONE,
        cut: Mapping[int, tuple[str, str]] = _NO_LISTENERS,
        heap_mb: int = 512,
    ) -> None:
        self._ids: Final = range(1, number + 1)
        self._data_dir = data_dir
        self._properties = dict(properties)
        self._cut = cut
        self._heap_mb = heap_mb
        self._cluster_id = new_cluster_id()
        self.nodes: dict[int, EmbeddedKafka] = {}

    def start(self) -> None:
        """Start all nodes that do not run, and return when each answers and knows all others.

        Raises:
            BrokerStartError: a node ended or did not answer within ``START_SECONDS``.
        """
        if self.nodes:
            return self._start_all()
        for remaining in reversed(range(FREE_PORT_ATTEMPTS)):
            self.nodes = self._new_nodes()
            try:
                return self._start_all()
            except (BrokerStartError, PortTakenError) as error:
                self.kill()
                self.nodes = {}
                if not (isinstance(error, PortTakenError) or PORT_TAKEN in error.tail) or not remaining:
                    raise
            except BaseException:
                self.kill()
                raise
        return None

    @property
    def running(self) -> list[int]:
        """The ids of the nodes that run."""
        return [number for number, node in self.nodes.items() if node.running]

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``bootstrap.servers`` for clients: the addresses of all nodes."""
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create those of the topics that do not exist; return when all running nodes know them."""
        self.nodes[self.running[0]].create_topics(partitions)
        self._await_each(lambda known: partitions.keys() <= known.topics.keys())

    def stop(self) -> None:
        """Shut all nodes down together; do nothing with those that do not run."""
        for node in self.nodes.values():
            node.terminate()
        for node in self.nodes.values():
            node.stop()

    def kill(self) -> None:
        """End all nodes with SIGKILL."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _new_nodes(self) -> dict[int, EmbeddedKafka]:
        ports = {node: _lasting_port() for node in self._ids}
        controllers = {node: f"{HOST}:{_lasting_port()}" for node in self._ids}
        shared = self._shared() | {
            "controller.quorum.voters": ",".join(f"{node}@{address}" for node, address in controllers.items())
        }
        return {
            node: EmbeddedKafka(
                data_dir=self._data_dir / str(node) if self._data_dir else None,
                port=ports[node],
                properties={
                    **shared,
                    "node.id": str(node),
                    **self._listeners(node, f"{HOST}:{ports[node]}", controllers[node]),
                    **self._properties,
                },
                heap_mb=self._heap_mb,
                cluster_id=self._cluster_id,
            )
            for node in self._ids
        }

    def _shared(self) -> dict[str, str]:
        """Return what depends on how many nodes there are."""
        replicas = min(_REPLICAS, len(self._ids))
        in_sync = max(1, replicas - 1)
        return {
            # A node has others that take its partitions: Kafka's defaults, which a node that is alone does not have.
            "controlled.shutdown.enable": "true" if replicas > 1 else "false",
            "broker.session.timeout.ms": "9000",
            # The first node waits for most of the others, which start after it.
            "initial.broker.registration.timeout.ms": str(len(self._ids) * _REGISTRATION_MS),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(in_sync),
        }

    def _listeners(self, node: int, client: str, controller: str) -> dict[str, str]:
        listens, told = {"CLIENT": client, "CONTROLLER": controller}, {"CLIENT": client}
        if node in self._cut:
            listens["CUT"], told["CUT"] = self._cut[node]
        return {
            "listeners": ",".join(f"{name}://{address}" for name, address in listens.items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in told.items()),
        }

    def _start_all(self) -> None:
        starting = [node for node in self.nodes.values() if not node.running]
        for node in starting:
            node.begin()
        for node in starting:
            node.await_ready()
        self._await_each(lambda known: len(known.brokers) == len(self.nodes))

    def _await_each(self, satisfied: Callable[[ClusterMetadata], bool]) -> None:
        """Wait until what each running node knows of the cluster satisfies a condition, or ``START_SECONDS``."""
        deadline = time.monotonic() + START_SECONDS
        for node in map(self.nodes.__getitem__, self.running):
            # The first request of a client goes to this node, later ones to any.
            while not satisfied(_known_to(node)) and time.monotonic() < deadline:
                time.sleep(_CHECK_SECONDS)


def _known_to(node: EmbeddedKafka) -> ClusterMetadata:
    return AdminCalls({"bootstrap.servers": node.bootstrap_servers}, timeout_s=_ANSWER_S).metadata()


def _lasting_port() -> int:
    while True:
        with contextlib.suppress(PortTakenError):
            return free_port(_PORTS[secrets.randbelow(len(_PORTS))])
