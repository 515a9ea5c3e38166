"""An Apache Kafka on loopback: one process that is broker and controller, starts in seconds and ends with its parent.

It is for demos, tests and trying things out, not for production: no authentication, no replication.
"""

import base64
import contextlib
import fcntl
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_redelivery.transport.admin.calls import AdminCalls
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
