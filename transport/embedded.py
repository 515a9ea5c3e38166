"""A real Apache Kafka on loopback: one process that is broker and controller, started in seconds, gone with its parent.

For demos, tests and trying things out; not for production: one node, no authentication, no replication.
"""

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from transport.errors import TransportError
from transport.guard import Guarded
from transport.jars import kafka_jars
from transport.java import find_java

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0

_HOST: Final = "127.0.0.1"
_LOOK_SECONDS: Final = 0.02
_TAIL_LINES: Final = 15
_TRIES_FOR_FREE_PORTS: Final = 3
_PORT_TAKEN: Final = "Address already in use"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

# Cheap to start: one stop-the-world collector, no files in the system's temporary directory.
_JVM_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto", "-Djava.awt.headless=true")
# To format is to run for a moment: the optimising compiler would never pay back.
_FORMAT_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
_BROKER_FLAGS: Final = (
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        # A topic that nobody made is a fault that must be seen.
        "auto.create.topics.enable": "false",
        # One node: nothing can be replicated, and few partitions of the internal topics are made and loaded quickly.
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        # The first member of a group need not wait for others.
        "group.initial.rebalance.delay.ms": "0",
    }
)


class BrokerStartError(TransportError):
    """The embedded broker ended, or was not ready in time, instead of starting.

    ``exit_code`` is ``None`` if it was still running, ``log`` the file it wrote to, ``tail`` that file's last lines.
    """

    def __init__(self, problem: str, *, exit_code: int | None, log: Path, tail: str) -> None:
        super().__init__(f"the embedded Kafka {problem}; the last lines of {log}:\n{tail or '(nothing)'}")
        self.exit_code = exit_code
        self.log = log
        self.tail = tail


class PortTakenError(TransportError):
    """Something else listens on the port that was asked for."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} on {_HOST} is taken; choose another one, or none to get a free one")
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
            BrokerStartError: it ended or did not answer within ``START_SECONDS``.
            PortTakenError: the port that was asked for is taken.
            JavaNotFoundError, JarMismatchError, JarUnavailableError: what it runs on is missing.
        """
        if self.running:
            return
        java, jars = find_java(), kafka_jars()
        class_path = ":".join(map(str, jars))
        for remaining in reversed(range(_TRIES_FOR_FREE_PORTS)):
            try:
                self._start_once(java, class_path)
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
        return f"{_HOST}:{self._port}"

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
        """Shuts the broker down in order, by force after ``STOP_SECONDS``; does nothing if it is not running."""
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
        """Ends the broker as a power cut would (SIGKILL); does nothing if it is not running.

        Started again, it first waits for the session of its former self to end: ``broker.session.timeout.ms``, 9 s.
        """
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

    def _start_once(self, java: Path, class_path: str) -> None:
        port = self._choose_port()
        home = (
            Path(tempfile.mkdtemp(prefix="redelivery-kafka-")) if self._data_dir is None else self._data_dir.absolute()
        )
        temporary = home if self._data_dir is None else None
        try:
            for directory in (home / "data", home / "tmp"):
                directory.mkdir(parents=True, exist_ok=True)
            command: list[str | Path] = [java, *_JVM_FLAGS, f"-Djava.io.tmpdir={home / 'tmp'}", "-cp", class_path]
            settings = home / "server.properties"
            settings.write_text(self._server_properties(home, port), encoding="utf-8")
            file = home / "broker.log"
            # Appended to, since another broker may run in that directory: then this one finds it locked and ends.
            with file.open("ab") as output:
                output.seek(0, os.SEEK_END)
                log = _Log(file, output.tell())
                if not (home / "data" / "meta.properties").exists():
                    _format([*command, *_FORMAT_FLAGS], settings, log, output.fileno())
                process = Guarded(
                    [*command, *_BROKER_FLAGS, f"-Xmx{self._heap_mb}m", "kafka.Kafka", settings],
                    remove=temporary,
                    stdout=output,
                    stderr=output,
                )
        except BaseException:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        try:
            _await_ready(process, port, log)
        except BaseException:
            process.kill()
            process.wait()
            raise
        self._process, self._port, self._log = process, port, file

    def _choose_port(self) -> int:
        if self._port is not None:
            with contextlib.suppress(PortTakenError):
                return _free_port(self._port)
            if self._wanted_port is not None:
                raise PortTakenError(self._wanted_port)
        return _free_port(0)

    def _server_properties(self, home: Path, port: int) -> str:
        controller = _free_port(0)
        properties = {
            **_SETTINGS,
            "listeners": f"CLIENT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"CLIENT://{_HOST}:{port}",
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "log.dirs": str(home / "data"),
            **self._properties,
        }
        return "".join(f"{name}={value}\n" for name, value in properties.items())


def _free_port(port: int) -> int:
    with socket.socket() as probe:
        # As the broker will: a connection of its predecessor that has not timed out yet is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error
        chosen: int = probe.getsockname()[1]
        return chosen


def _format(java: list[str | Path], settings: Path, log: _Log, output: int) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", settings]
    code = subprocess.run(command, stdout=output, stderr=output, timeout=START_SECONDS, check=False).returncode
    if code:
        raise BrokerStartError("could not format its data directory", exit_code=code, log=log.path, tail=log.tail())


def _await_ready(process: Guarded, port: int, log: _Log) -> None:
    deadline = time.monotonic() + START_SECONDS
    # The client complains about each refused connection, so it is asked only when somebody listens.
    while not _listens(port):
        _check_alive(process, log, deadline)
        time.sleep(_LOOK_SECONDS)  # noqa: TID251 (another process listens at a moment that nothing announces)
    client = AdminClient({"bootstrap.servers": f"{_HOST}:{port}", "log_level": 0})
    while not _answers(client):
        _check_alive(process, log, deadline)


def _check_alive(process: Guarded, log: _Log, deadline: float) -> None:
    code = process.poll()
    if code is not None:
        raise BrokerStartError(f"ended with exit code {code}", exit_code=code, log=log.path, tail=log.tail())
    if time.monotonic() > deadline:
        raise BrokerStartError(
            f"was not ready after {START_SECONDS:g} s", exit_code=None, log=log.path, tail=log.tail()
        )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0


def _answers(client: AdminClient) -> bool:
    try:
        cluster = client.list_topics(timeout=1)
    except KafkaException:
        return False
    return cluster.controller_id >= 0 and bool(cluster.brokers)


@dataclass(frozen=True, slots=True)
class _Log:
    """What one start wrote to the log file: everything after the first ``begun`` bytes."""

    path: Path
    begun: int

    def tail(self) -> str:
        """The last lines, without the frames of stack traces, which would push out what they explain."""
        with self.path.open("rb") as content:
            content.seek(self.begun)
            lines = content.read().decode(errors="replace").splitlines()
        return "\n".join([line for line in lines if not line.startswith("\tat ")][-_TAIL_LINES:])
