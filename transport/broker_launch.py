"""Launches one Kafka node in a directory: settings, storage format, start, and the wait until it answers."""

import base64
import contextlib
import fcntl
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from transport.errors import TransportError
from transport.guard import Guarded
from transport.jars import kafka_jars
from transport.java import find_java

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0

_LOOK_SECONDS: Final = 0.02
_TAIL_LINES: Final = 15

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
        # One node has nobody to hand over to. All it would do is leave its partitions without a leader for a moment, in
        # which its coordinator notes transactions as complete without ending them there (KAFKA-20734, seen in 4.3.1).
        "controlled.shutdown.enable": "false",
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


class DataInUseError(TransportError):
    """Another embedded broker runs on the same data directory. Two on one directory would destroy its data."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"an embedded Kafka already runs in {home}; stop that one, or choose another directory")
        self.home = home


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be launched.

    ``home`` gets ``server.properties``, ``broker.log``, and the directories ``data`` and ``tmp``. Clients connect to
    ``port``, the node talks to itself on ``controller_port``, both on ``HOST``. ``properties`` win over ours. The
    largest heap is ``heap_mb`` MiB. ``temporary``: ``home`` is deleted after the node has ended.
    """

    home: Path
    port: int
    controller_port: int
    properties: Mapping[str, str]
    heap_mb: int
    temporary: bool

    @property
    def log(self) -> Path:
        """The file with the warnings and errors of the node launched last."""
        return self.home / "broker.log"

    def server_properties(self) -> str:
        """The content of ``server.properties``."""
        properties = {
            **_SETTINGS,
            "listeners": f"CLIENT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"CLIENT://{HOST}:{self.port}",
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "log.dirs": str(self.home / "data"),
            **self.properties,
        }
        return "".join(f"{name}={value}\n" for name, value in properties.items())


def launch(what: Launch) -> Guarded:
    """Starts a node, in a directory that is formatted if it is not yet, and returns it when it answers.

    Raises:
        BrokerStartError: it ended or did not answer within ``START_SECONDS``. Nothing of it is left running.
        DataInUseError: another one runs there.
        JavaNotFoundError, JarMismatchError, JarUnavailableError: what it runs on is missing.
    """
    java, jars = find_java(), kafka_jars()
    data, tmp = what.home / "data", what.home / "tmp"
    for directory in (data, tmp):
        directory.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [java, *_JVM_FLAGS, f"-Djava.io.tmpdir={tmp}", "-cp", ":".join(map(str, jars))]
    with _locked(what.home) as lock, what.log.open("wb") as output:
        settings = what.home / "server.properties"
        settings.write_text(what.server_properties(), encoding="utf-8")
        if not (data / "meta.properties").exists():
            _format([*command, *_FORMAT_FLAGS], settings, what.log, output.fileno())
        node = Guarded(
            [*command, *_BROKER_FLAGS, f"-Xmx{what.heap_mb}m", "kafka.Kafka", settings],
            remove=what.home if what.temporary else None,
            hold=[lock],
            stdout=output,
            stderr=output,
        )
    try:
        _await_ready(node, what.port, what.log)
    except BaseException:
        node.kill()
        node.wait()
        raise
    return node


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[int]:
    # Kafka has a lock of its own, but takes it only after it has written to the metadata log. Ours is on an open file
    # that the guard of the node holds too, so it lasts as long as the node.
    with (home / ".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataInUseError(home) from None
        yield lock.fileno()


def _format(java: list[str | Path], settings: Path, log: Path, output: int) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", settings]
    try:
        subprocess.run(command, stdout=output, stderr=output, timeout=START_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        code = error.returncode if isinstance(error, subprocess.CalledProcessError) else None
        problem = "could not format its data directory"
        raise BrokerStartError(problem, exit_code=code, log=log, tail=_tail(log)) from error


def _await_ready(node: Guarded, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    # The client complains about each refused connection, so it is asked only when somebody listens.
    while not _listens(port):
        _check_alive(node, log, deadline)
        time.sleep(_LOOK_SECONDS)  # noqa: TID251 (another node listens at a moment that nothing announces)
    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    while not _answers(client):
        _check_alive(node, log, deadline)


def _check_alive(node: Guarded, log: Path, deadline: float) -> None:
    code = node.poll()
    if code is not None:
        raise BrokerStartError(f"ended with exit code {code}", exit_code=code, log=log, tail=_tail(log))
    if time.monotonic() > deadline:
        raise BrokerStartError(f"was not ready after {START_SECONDS:g} s", exit_code=None, log=log, tail=_tail(log))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _answers(client: AdminClient) -> bool:
    try:
        cluster = client.list_topics(timeout=1)
    except KafkaException:
        return False
    return cluster.controller_id >= 0 and bool(cluster.brokers)


def _tail(log: Path) -> str:
    # Without the frames of stack traces, which would push out what they explain.
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([line for line in lines if not line.startswith("\tat ")][-_TAIL_LINES:])
