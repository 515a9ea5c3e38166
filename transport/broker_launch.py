"""Launches one Kafka node in a directory: settings, storage format, start, and the wait until it answers."""

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
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
        """The file with the warnings and errors of every node launched in this directory."""
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
        JavaNotFoundError, JarMismatchError, JarUnavailableError: what it runs on is missing.
    """
    java, jars = find_java(), kafka_jars()
    data, tmp = what.home / "data", what.home / "tmp"
    for directory in (data, tmp):
        directory.mkdir(parents=True, exist_ok=True)
    settings = what.home / "server.properties"
    settings.write_text(what.server_properties(), encoding="utf-8")
    command: list[str | Path] = [java, *_JVM_FLAGS, f"-Djava.io.tmpdir={tmp}", "-cp", ":".join(map(str, jars))]
    # Appended to, since another node may run in that directory: then this one finds it locked and ends.
    with what.log.open("ab") as output:
        output.seek(0, os.SEEK_END)
        log = _Log(what.log, output.tell())
        if not (data / "meta.properties").exists():
            _format([*command, *_FORMAT_FLAGS], settings, log, output.fileno())
        node = Guarded(
            [*command, *_BROKER_FLAGS, f"-Xmx{what.heap_mb}m", "kafka.Kafka", settings],
            remove=what.home if what.temporary else None,
            stdout=output,
            stderr=output,
        )
    try:
        _await_ready(node, what.port, log)
    except BaseException:
        node.kill()
        node.wait()
        raise
    return node


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


def _format(java: list[str | Path], settings: Path, log: _Log, output: int) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", settings]
    try:
        subprocess.run(command, stdout=output, stderr=output, timeout=START_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        code = error.returncode if isinstance(error, subprocess.CalledProcessError) else None
        problem = "could not format its data directory"
        raise BrokerStartError(problem, exit_code=code, log=log.path, tail=log.tail()) from error


def _await_ready(node: Guarded, port: int, log: _Log) -> None:
    deadline = time.monotonic() + START_SECONDS
    # The client complains about each refused connection, so it is asked only when somebody listens.
    while not _listens(port):
        _check_alive(node, log, deadline)
        time.sleep(_LOOK_SECONDS)  # noqa: TID251 (another node listens at a moment that nothing announces)
    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    while not _answers(client):
        _check_alive(node, log, deadline)


def _check_alive(node: Guarded, log: _Log, deadline: float) -> None:
    code = node.poll()
    if code is not None:
        raise BrokerStartError(f"ended with exit code {code}", exit_code=code, log=log.path, tail=log.tail())
    if time.monotonic() > deadline:
        raise BrokerStartError(
            f"was not ready after {START_SECONDS:g} s", exit_code=None, log=log.path, tail=log.tail()
        )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _answers(client: AdminClient) -> bool:
    try:
        cluster = client.list_topics(timeout=1)
    except KafkaException:
        return False
    return cluster.controller_id >= 0 and bool(cluster.brokers)
