"""A cluster of several Apache Kafka nodes on loopback, each a process of its own that is broker and controller.

It is for trying out and testing what a replicated cluster does when nodes fail. Topics have three replicas, of which
two must be in sync, and the cluster works as long as most of its nodes run.
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
    PORT_TAKEN,
    EmbeddedKafka,
    PortTakenError,
    free_port,
)
from kafka_redelivery.transport.broker.launch import START_SECONDS, BrokerStartError, Listeners
from kafka_redelivery.transport.broker.quorum import Quorum, new_cluster_id

_PORTS: Final = range(20_000, 32_000)
"""Below the ports that the system gives to outgoing connections, so that a node which restarts gets its port again."""

_ANSWER_S: Final = 10.0
_CHECK_SECONDS: Final = 0.1
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_LISTENERS: Final[Mapping[int, Listeners]] = MappingProxyType({})


class EmbeddedCluster:
    """Several Apache Kafka nodes in KRaft mode, numbered from 1.

    Not thread-safe. As a context manager it starts on entry and stops on exit. When the process that started it ends,
    even by SIGKILL, all nodes end too and their temporary directories are deleted.

    Args:
        nodes: how many; of three, one may fail.
        data_dir: gets a directory ``1``, ``2``, ... for each node; kept, so that a node or cluster that is started
            there later has the same data. ``None`` uses temporary directories: a node that ends loses its data.
        port: the port for clients of the first node; those of the others follow it. ``None`` chooses free ports.
        properties: broker properties of all nodes; they override the defaults.
        listeners: by node id, further listeners of a node, as for :class:`EmbeddedKafka`.
        heap_mb: maximum heap of each node in MiB.

    Attributes:
        nodes: the nodes by id; each can be stopped, killed and started alone. Empty before ``start``.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        properties: Mapping[str, str] = _NONE,
        listeners: Mapping[int, Listeners] = _NO_LISTENERS,
        heap_mb: int = 512,
    ) -> None:
        self._ids: Final = range(1, nodes + 1)
        self._data_dir = data_dir
        self._port = port
        self._properties = dict(properties)
        self._listeners = listeners
        self._heap_mb = heap_mb
        self.nodes: dict[int, EmbeddedKafka] = {}

    def start(self) -> None:
        """Start all nodes that do not run, and return when each answers and knows all others.

        Raises:
            BrokerStartError: a node ended or did not answer within ``START_SECONDS``.
            DataInUseError: another node runs in a data directory.
            PortTakenError: another process listens on a chosen port.
            JavaNotFoundError, JarMismatchError, JarUnavailableError: Java or a jar is missing or not usable.
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
                taken = isinstance(error, PortTakenError) or PORT_TAKEN in error.tail
                if self._port is not None or not taken or not remaining:
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
        """Create those of the topics that do not exist, as :meth:`EmbeddedKafka.create_topics` does.

        It returns when all running nodes know them, so that a client finds them with whichever node it asks.
        """
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
        homes = {node: self._data_dir / str(node) if self._data_dir else None for node in self._ids}
        cluster_id = next(filter(None, map(_stored_cluster_id, homes.values())), None) or new_cluster_id()
        controllers = {node: _lasting_port() for node in self._ids}
        return {
            node: EmbeddedKafka(
                data_dir=homes[node],
                port=_lasting_port() if self._port is None else self._port + node - 1,
                properties=self._properties,
                listeners=self._listeners.get(node, {}),
                heap_mb=self._heap_mb,
                quorum=Quorum(node, controllers, cluster_id),
            )
            for node in self._ids
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
                time.sleep(_CHECK_SECONDS)  # noqa: TID251 (a node learns it at a time that nothing announces)


def _known_to(node: EmbeddedKafka) -> ClusterMetadata:
    return AdminCalls({"bootstrap.servers": node.bootstrap_servers}, timeout_s=_ANSWER_S).metadata()


def _stored_cluster_id(home: Path | None) -> str | None:
    """Return the cluster id with which a node's directory was formatted, if it was."""
    if home is None:
        return None
    with contextlib.suppress(FileNotFoundError):
        for line in (home / "data" / "meta.properties").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            if name == "cluster.id":
                return value
    return None


def _lasting_port() -> int:
    while True:
        with contextlib.suppress(PortTakenError):
            return free_port(_PORTS[secrets.randbelow(len(_PORTS))])
