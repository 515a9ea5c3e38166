"""An Apache Kafka on loopback: one process that is broker and controller, starts in seconds and ends with its parent.

It is for demos, tests and trying things out, not for production: no authentication, no replication.
"""

import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from confluent_kafka.admin import NewTopic

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.broker.guard import GuardedProcess
from kafka_redelivery.transport.broker.launch import (
    HOST,
    BrokerStartError,
    Launch,
    await_ready,
    launch,
    new_cluster_id,
)
from kafka_redelivery.transport.errors import TransportError

STOP_SECONDS: Final = 30.0
FREE_PORT_ATTEMPTS: Final = 3
PORT_TAKEN: Final = "Address already in use"

_TOPICS_TIMEOUT_S: Final = 30.0
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class PortTakenError(TransportError):
    """Another process listens on the chosen port."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} on {HOST} is in use by another process; choose another port, or none to get a free one"
        )
        self.port = port


class BrokerNotRunningError(TransportError):
    """The broker does not run, so it has no process, address or log. Call ``start`` first."""

    def __init__(self) -> None:
        super().__init__("the embedded Kafka is not running; start it first")


class EmbeddedKafka:
    """One Apache Kafka node in KRaft mode.

    Not thread-safe. As a context manager it starts on entry and stops on exit. When the process that started it ends,
    even by SIGKILL, the broker ends too and its temporary directory is deleted.

    Args:
        data_dir: the directory of data and logs; created if it does not exist, and kept, so that a broker started
            there later has the same topics. ``None`` uses a temporary directory.
        port: the port for clients, on 127.0.0.1. ``None`` chooses a free port; after a restart it is the same one, if
            that is still free.
        properties: broker properties; they override the defaults of this class.
        heap_mb: maximum heap of the Java process in MiB.
        cluster_id: the id of its cluster; ``None`` makes one.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        properties: Mapping[str, str] = _NONE,
        heap_mb: int = 512,
        cluster_id: str | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._wanted_port = port
        self._properties = dict(properties)
        self._heap_mb = heap_mb
        self._cluster_id = cluster_id or new_cluster_id()
        self._port: int | None = port
        self._launch: Launch | None = None
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start the broker and return when it answers; do nothing if it is running.

        Raises:
            BrokerStartError: it ended or did not answer within ``START_SECONDS``.
            DataInUseError: another broker runs in the data directory.
            PortTakenError: another process listens on the chosen port.
            JavaNotFoundError, JarMismatchError, JarUnavailableError: Java or a jar is missing or not usable.
        """
        if self.running:
            return
        for remaining in reversed(range(FREE_PORT_ATTEMPTS)):
            try:
                self.begin()
                self.await_ready()
            except BrokerStartError as error:
                # Another process can take the free port before the broker listens on it.
                if self._wanted_port is not None or PORT_TAKEN not in error.tail or not remaining:
                    raise
            else:
                return

    def begin(self) -> None:
        """Start the process and do not wait until it answers: a node of a cluster answers once most of them run.

        Raises:
            DataInUseError, PortTakenError, JavaNotFoundError, JarMismatchError, JarUnavailableError: see ``start``.
            BrokerStartError: its directory could not be formatted.
        """
        port = self._choose_port()
        temporary = self._data_dir is None
        home = Path(tempfile.mkdtemp(prefix="redelivery-kafka-")) if self._data_dir is None else self._data_dir
        node = Launch(
            home=home.absolute(),
            port=port,
            controller_port=free_port(),
            cluster_id=self._cluster_id,
            properties=self._properties,
            heap_mb=self._heap_mb,
            temporary=temporary,
        )
        try:
            self._process = launch(node)
        except BaseException:
            if temporary:
                shutil.rmtree(home, ignore_errors=True)
            raise
        self._port, self._launch = node.port, node

    def await_ready(self) -> None:
        """Return when the process that was begun answers.

        Raises:
            BrokerStartError: it ended or did not answer within ``START_SECONDS``.
            BrokerNotRunningError: none was begun.
        """
        if self._process is None or self._launch is None:
            raise BrokerNotRunningError
        await_ready(self._process, self._launch)

    @property
    def running(self) -> bool:
        """Whether the Java process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``bootstrap.servers`` for clients.

        Raises:
            BrokerNotRunningError: it has never been started.
        """
        if self._port is None:
            raise BrokerNotRunningError
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """The process id of the Java process.

        Raises:
            BrokerNotRunningError: it is not running.
        """
        if self._process is None or not self.running:
            raise BrokerNotRunningError
        return self._process.pid

    @property
    def log(self) -> Path:
        """The file with the broker's warnings and errors.

        Raises:
            BrokerNotRunningError: it has never been started.
        """
        if self._launch is None:
            raise BrokerNotRunningError
        return self._launch.log

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create those of the topics that do not exist, with these numbers of partitions and the default replication.

        Raises:
            AdminError: the broker refuses a name or a number.
            BrokerUnavailableError: the broker does not answer.
        """
        calls = AdminCalls({"bootstrap.servers": self.bootstrap_servers}, timeout_s=_TOPICS_TIMEOUT_S)
        existing = calls.metadata().topics
        for name, number in partitions.items():
            if name not in existing:
                new = NewTopic(name, num_partitions=number)
                calls.each(f"create topic {name}", partial(calls.client.create_topics, [new]))

    def stop(self) -> None:
        """Shut the broker down, with SIGKILL after ``STOP_SECONDS``; do nothing if it is not running.

        The next start waits until the session of this process ends (``broker.session.timeout.ms``, 9 s).
        """
        if self._process is None:
            return
        self.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def terminate(self) -> None:
        """Send SIGTERM and do not wait; do nothing if it is not running."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the broker with SIGKILL, as a power failure would; do nothing if it is not running."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _choose_port(self) -> int:
        if self._port is not None:
            with contextlib.suppress(PortTakenError):
                return free_port(self._port)
            if self._wanted_port is not None:
                raise PortTakenError(self._wanted_port)
        return free_port()


def free_port(port: int = 0) -> int:
    """Return a port on which no process listens: this one, or any with 0.

    Raises:
        PortTakenError: this one is in use.
    """
    with socket.socket() as probe:
        # The broker sets this option too: connections of its predecessor that have not timed out do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error
        chosen: int = probe.getsockname()[1]
        return chosen
