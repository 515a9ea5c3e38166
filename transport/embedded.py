"""A real Apache Kafka on loopback: one process that is broker and controller, started in seconds, gone with its parent.

For demos, tests and trying things out; not for production: one node, no authentication, no replication.
"""

import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from transport.broker_launch import HOST, BrokerStartError, Launch, launch
from transport.errors import TransportError
from transport.guard import Guarded

STOP_SECONDS: Final = 30.0

_TRIES_FOR_FREE_PORTS: Final = 3
_PORT_TAKEN: Final = "Address already in use"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class PortTakenError(TransportError):
    """Something else listens on the port that was asked for."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} on {HOST} is taken; choose another one, or none to get a free one")
        self.port = port


class BrokerNotRunningError(TransportError):
    """The embedded broker was asked for what only a running one has. Call ``start`` first."""

    def __init__(self) -> None:
        super().__init__("the embedded Kafka is not running; start it first")


class EmbeddedKafka:
    """One Apache Kafka node in KRaft mode.

    Not thread-safe. As a context manager it starts on entry and stops on exit. It also ends, and its temporary
    directory with it, when the process that started it ends in whatever way.

    Args:
        data_dir: where data and logs are kept; made if it is not there, left as it is at the end. A broker started
            there later finds its topics again. Without it, a temporary directory is used and removed.
        port: where clients connect, on 127.0.0.1. Without it a free port is taken; a broker that is started again
            takes the port it had, if that is still free.
        properties: broker properties, stronger than ours.
        heap_mb: the largest heap of the Java process, MiB.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        properties: Mapping[str, str] = _NONE,
        heap_mb: int = 512,
    ) -> None:
        self._data_dir = data_dir
        self._wanted_port = port
        self._properties = dict(properties)
        self._heap_mb = heap_mb
        self._port: int | None = port
        self._process: Guarded | None = None
        self._log: Path | None = None

    def start(self) -> None:
        """Starts the broker and returns when it answers; does nothing if it is running.

        Raises:
            BrokerStartError: it ended or did not answer within a minute.
            DataInUseError: another one runs in the data directory.
            PortTakenError: the port that was asked for is taken.
            JavaNotFoundError, JarMismatchError, JarUnavailableError: what it runs on is missing.
        """
        if self.running:
            return
        for remaining in reversed(range(_TRIES_FOR_FREE_PORTS)):
            try:
                self._start_once()
            except BrokerStartError as error:
                # Between choosing a free port and listening there, somebody else can take it.
                if self._wanted_port is not None or _PORT_TAKEN not in error.tail or not remaining:
                    raise
            else:
                return

    @property
    def running(self) -> bool:
        """Whether the Java process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        """What a client's ``bootstrap.servers`` must say.

        Raises:
            BrokerNotRunningError: it has never been started.
        """
        if self._port is None:
            raise BrokerNotRunningError
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """Process id of the Java process.

        Raises:
            BrokerNotRunningError: there is none.
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
        if self._log is None:
            raise BrokerNotRunningError
        return self._log

    def stop(self) -> None:
        """Shuts the broker down, by force after ``STOP_SECONDS``; does nothing if it is not running.

        Started again, it first waits for the session of its former self to end: ``broker.session.timeout.ms``, 9 s.
        """
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Ends the broker as a power cut would (SIGKILL); does nothing if it is not running."""
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

    def _start_once(self) -> None:
        port = self._choose_port()
        temporary = self._data_dir is None
        home = Path(tempfile.mkdtemp(prefix="redelivery-kafka-")) if self._data_dir is None else self._data_dir
        what = Launch(
            home=home.absolute(),
            port=port,
            controller_port=_free_port(0),
            properties=self._properties,
            heap_mb=self._heap_mb,
            temporary=temporary,
        )
        try:
            self._process = launch(what)
        except BaseException:
            if temporary:
                shutil.rmtree(home, ignore_errors=True)
            raise
        self._port, self._log = what.port, what.log

    def _choose_port(self) -> int:
        if self._port is not None:
            with contextlib.suppress(PortTakenError):
                return _free_port(self._port)
            if self._wanted_port is not None:
                raise PortTakenError(self._wanted_port)
        return _free_port(0)


def _free_port(port: int) -> int:
    with socket.socket() as probe:
        # As the broker will: a connection of its predecessor that has not timed out yet is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error
        chosen: int = probe.getsockname()[1]
        return chosen
