"""Launches a Kafka node in a directory: writes its settings, formats its storage, starts it and waits for it."""

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

from kafka_redelivery.transport.broker.guard import GuardedProcess
from kafka_redelivery.transport.broker.jars import kafka_jars
from kafka_redelivery.transport.broker.java import find_java
from kafka_redelivery.transport.errors import TransportError

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 120.0

_CHECK_SECONDS: Final = 0.02
_TAIL_LINES: Final = 15
_LONG_SESSION_MS: Final = 3_600_000

# For a quick start: a simple garbage collector, and no files in the system's temporary directory.
_JVM_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto", "-Djava.awt.headless=true")
# Formatting is so short that the optimising compiler does not pay off.
_FORMAT_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
_BROKER_FLAGS: Final = (
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        # There is no other node to move leaders to. A controlled shutdown would only leave the partitions without a
        # leader for a moment, in which the coordinator marks transactions as complete without writing their markers
        # (KAFKA-20734, seen in 4.3.1).
        "controlled.shutdown.enable": "false",
        # Writing to a topic that was not created must fail.
        "auto.create.topics.enable": "false",
        # Few partitions of the internal topics are created and loaded quickly.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The first member of a group does not wait for others.
        "group.initial.rebalance.delay.ms": "0",
    }
)


class BrokerStartError(TransportError):
    """The embedded broker ended during its start, or did not answer in time.

    Attributes:
        broker_exit_code: the exit code of the broker's process; ``None`` if it was still running.
        log: the file that the broker wrote to.
        tail: the last lines of that file.
    """

    def __init__(self, problem: str, *, exit_code: int | None, log: Path, tail: str) -> None:
        super().__init__(f"the embedded Kafka {problem}; the last lines of {log}:\n{tail or '(nothing)'}")
        self.broker_exit_code = exit_code
        self.log = log
        self.tail = tail


class DataInUseError(TransportError):
    """Another embedded broker runs in the same data directory; two in one directory would destroy its data."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"an embedded Kafka already runs in {home}; stop that one, or choose another directory")
        self.home = home


@dataclass(frozen=True, slots=True)
class Launch:
    """The settings of a node.

    Attributes:
        home: gets ``server.properties``, ``broker.log`` and the directories ``data`` and ``tmp``.
        port: the port for clients, on ``HOST``.
        controller_port: the port on which it is controller, on ``HOST``.
        cluster_id: the id that it stores when its directory is formatted.
        properties: broker properties; they override our defaults.
        heap_mb: maximum heap in MiB.
        temporary: whether to delete ``home`` after the node has ended.
    """

    home: Path
    port: int
    controller_port: int
    cluster_id: str
    properties: Mapping[str, str]
    heap_mb: int
    temporary: bool

    @property
    def log(self) -> Path:
        """The file with the warnings and errors of the last launched node."""
        return self.home / "broker.log"

    def server_properties(self) -> str:
        """The content of ``server.properties``."""
        client, controller = f"{HOST}:{self.port}", f"{HOST}:{self.controller_port}"
        # On a busy machine a node can be too slow to renew its session. Alone it would lose the lead of its partitions
        # to no other node, and with it markers of transactions (KAFKA-20734). A node that starts again waits until its
        # session of the time before has ended, so only one that loses its data can have a long one.
        session = {"broker.session.timeout.ms": str(_LONG_SESSION_MS)} if self.temporary else {}
        properties = {
            **_PROPERTIES,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"CLIENT://{client},CONTROLLER://{controller}",
            "advertised.listeners": f"CLIENT://{client}",
            "log.dirs": str(self.home / "data"),
            **session,
            **self.properties,
        }
        return "".join(f"{name}={value}\n" for name, value in properties.items())


def new_cluster_id() -> str:
    """Return a random id in Kafka's form."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def launch(settings: Launch) -> GuardedProcess:
    """Format the data directory if necessary, and start a node; :func:`await_ready` waits until it answers.

    Raises:
        BrokerStartError: the directory could not be formatted.
        DataInUseError: another node runs in the directory.
        JavaNotFoundError, JarMismatchError, JarUnavailableError: Java or a jar is missing or not usable.
    """
    java, jars = find_java(), kafka_jars()
    data, tmp = settings.home / "data", settings.home / "tmp"
    for directory in (data, tmp):
        directory.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [java, *_JVM_FLAGS, f"-Djava.io.tmpdir={tmp}", "-cp", ":".join(map(str, jars))]
    with _locked(settings.home) as lock, settings.log.open("wb") as output:
        properties = settings.home / "server.properties"
        properties.write_text(settings.server_properties(), encoding="utf-8")
        if not (data / "meta.properties").exists():
            _format([*command, *_FORMAT_FLAGS], settings, properties, output.fileno())
        return GuardedProcess(
            [*command, *_BROKER_FLAGS, f"-Xmx{settings.heap_mb}m", "kafka.Kafka", properties],
            remove=settings.home if settings.temporary else None,
            hold=[lock],
            stdout=output,
            stderr=output,
        )


def await_ready(node: GuardedProcess, settings: Launch) -> None:
    """Return when a launched node answers and its cluster has a controller.

    Raises:
        BrokerStartError: it ended or did not answer within ``START_SECONDS``. No process of it is left.
    """
    try:
        _await_ready(node, settings.port, settings.log)
    except BaseException:
        node.kill()
        node.wait()
        raise


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[int]:
    # Kafka locks the directory only after it has written to the metadata log. The guard of the node keeps this lock's
    # file open, so the lock lasts as long as the node.
    with (home / ".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataInUseError(home) from None
        yield lock.fileno()


def _format(java: list[str | Path], settings: Launch, properties: Path, output: int) -> None:
    cluster, log = settings.cluster_id, settings.log
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", properties]
    try:
        subprocess.run(command, stdout=output, stderr=output, timeout=START_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        code = error.returncode if isinstance(error, subprocess.CalledProcessError) else None
        problem = "could not format its data directory"
        raise BrokerStartError(problem, exit_code=code, log=log, tail=_tail(log)) from error


def _await_ready(node: GuardedProcess, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    # The client logs each refused connection, so it is created only when the port is open.
    while not _listens(port):
        _check_alive(node, log, deadline)
        time.sleep(_CHECK_SECONDS)  # noqa: TID251 (another process opens the port at a time that nothing announces)
    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    while not _answers(client):
        _check_alive(node, log, deadline)


def _check_alive(node: GuardedProcess, log: Path, deadline: float) -> None:
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
    # Stack frames are left out, because they would displace the messages.
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([line for line in lines if not line.startswith("\tat ")][-_TAIL_LINES:])
