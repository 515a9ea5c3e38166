"""An Apache Kafka on loopback: one process that is broker and controller, starts in seconds and ends with its parent.

It is for demos, tests and trying things out, not for production: no authentication, no replication.
"""

import base64
import contextlib
import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.broker.guard import GuardedProcess
from kafka_redelivery.transport.broker.jars import KAFKA_VERSION, kafka_jars, kafka_lock
from kafka_redelivery.transport.broker.java import find_java
from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.opening import open_producer
from kafka_redelivery.transport.protocols import ProducerRecord

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 30.0
FREE_PORT_ATTEMPTS: Final = 3
PORT_TAKEN: Final = "Address already in use"

_CHECK_SECONDS: Final = 0.02
_TAIL_LINES: Final = 15
_LONG_SESSION_MS: Final = 3_600_000
_TOPICS_TIMEOUT_S: Final = 30.0

JVM_OPTIONS: Final = "KAFKA_JVM_PERFORMANCE_OPTS"
"""The variable of the environment that replaces the options of the JVM, as it does for Kafka's own start script."""

# For a quick start: a simple garbage collector, and no files in the system's temporary directory.
JVM_DEFAULTS: Final = "-XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto -Djava.awt.headless=true"
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
        # (KAFKA-20734, seen in 4.3.1; 4.4.0 has the same code).
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


_NOT_RUNNING = "the embedded Kafka is not running; start it first"


class BrokerStartError(TransportError):
    """The embedded broker ended during its start, or did not answer in time.

    Attributes:
        broker_exit_code: the exit code of the broker's process; ``None`` if it was still running.
        log: the file that the broker wrote to.
        tail: the last lines of that file.
    """

    def __init__(self, problem: str, *, exit_code: int | None, log: Path) -> None:
        self.tail = _tail(log)
        super().__init__(f"the embedded Kafka {problem}; the last lines of {log}:\n{self.tail or '(nothing)'}")
        self.broker_exit_code = exit_code
        self.log = log


def server_properties(
    home: Path, port: int, controller_port: int, own: Mapping[str, str], *, temporary: bool
) -> dict[str, str]:
    """Return the properties of a node; its ``own`` override the others."""
    client, controller = f"{HOST}:{port}", f"{HOST}:{controller_port}"
    # On a busy machine a node can be too slow to renew its session. Alone it would lose the lead of its partitions
    # to no other node, and with it markers of transactions (KAFKA-20734). A node that starts again waits until its
    # session of the time before has ended, so only one that loses its data can have a long one.
    session = {"broker.session.timeout.ms": str(_LONG_SESSION_MS)} if temporary else {}
    return {
        **_PROPERTIES,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"CLIENT://{client},CONTROLLER://{controller}",
        "advertised.listeners": f"CLIENT://{client}",
        "log.dirs": str(home / "data"),
        **session,
        **own,
    }


def new_cluster_id() -> str:
    """Return a random id in Kafka's form."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[int]:
    # Kafka locks the directory only after it has written to the metadata log. The guard of the node keeps this lock's
    # file open, so the lock lasts as long as the node.
    with (home / ".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TransportError(
                f"an embedded Kafka already runs in {home}; stop that one, or choose another directory"
            ) from None
        yield lock.fileno()


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


class PortTakenError(TransportError):
    """Another process listens on the chosen port."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} on {HOST} is in use by another process; choose another port, or none to get a free one"
        )
        self.port = port


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
        version: the version of Apache Kafka. Data that a newer version has written may be unreadable for an older one.
        features: feature levels of a new data directory that are not the defaults of this version, by name.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
        heap_mb: int = 512,
        cluster_id: str | None = None,
        version: str = KAFKA_VERSION,
        features: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._features = [f"--feature={name}={level}" for name, level in features.items()]
        self._data_dir = data_dir
        self._wanted_port = port
        self._properties = dict(properties)
        self._heap_mb = heap_mb
        self._version = version
        self._cluster_id = cluster_id or new_cluster_id()
        self._port: int | None = port
        self._home: Path | None = None
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start the broker and return when it answers; do nothing if it is running.

        Raises:
            BrokerStartError: it ended or did not answer within ``START_SECONDS``.
            PortTakenError: another process listens on the chosen port.
            TransportError: another broker runs in the data directory, or Java or a jar is missing or not usable.
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
            TransportError, PortTakenError: see ``start``.
            BrokerStartError: its directory could not be formatted.
        """
        port = self._choose_port()
        temporary = self._data_dir is None
        home = (
            Path(tempfile.mkdtemp(prefix="redelivery-kafka-")) if self._data_dir is None else self._data_dir.absolute()
        )
        properties = server_properties(home, port, free_port(), self._properties, temporary=temporary)
        try:
            self._process = self._launched(home, properties, temporary=temporary)
        except BaseException:
            if temporary:
                shutil.rmtree(home, ignore_errors=True)
            raise
        self._port, self._home = port, home

    def _launched(self, home: Path, properties: Mapping[str, str], *, temporary: bool) -> GuardedProcess:
        """Format the data directory if necessary, and start the process."""
        java = find_java()
        jars = kafka_jars(lock_file=kafka_lock(self._version), what=f"Apache Kafka {self._version}")
        data, tmp, file, log = home / "data", home / "tmp", home / "server.properties", home / "broker.log"
        for directory in (data, tmp):
            directory.mkdir(parents=True, exist_ok=True)
        options = shlex.split(os.environ.get(JVM_OPTIONS, JVM_DEFAULTS))
        command: list[str | Path] = [java, *options, f"-Djava.io.tmpdir={tmp}", "-cp", ":".join(map(str, jars))]
        tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster_id}", "--config", file)
        with _locked(home) as lock, log.open("wb") as output:
            file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
            if not (data / "meta.properties").exists():
                formatting = [*command, *_FORMAT_FLAGS, *tool, *self._features]
                try:
                    subprocess.run(formatting, stdout=output, stderr=output, timeout=START_SECONDS, check=True)
                except subprocess.SubprocessError as error:
                    code = error.returncode if isinstance(error, subprocess.CalledProcessError) else None
                    raise BrokerStartError("could not format its data directory", exit_code=code, log=log) from error
            return GuardedProcess(
                [*command, *_BROKER_FLAGS, f"-Xmx{self._heap_mb}m", "kafka.Kafka", file],
                remove=home if temporary else None,
                hold=[lock],
                stdout=output,
                stderr=output,
            )

    def await_ready(self) -> None:
        """Return when the process that was begun answers and its cluster has a controller.

        Raises:
            BrokerStartError: it ended or did not answer within ``START_SECONDS``. No process of it is left.
            TransportError: none was begun.
        """
        if self._process is None or self._port is None:
            raise TransportError(_NOT_RUNNING)
        deadline = time.monotonic() + START_SECONDS
        try:
            # The client logs each refused connection, so it is created only when the port is open.
            while not _listens(self._port):
                self._check_alive(self._process, deadline)
                time.sleep(_CHECK_SECONDS)  # noqa: TID251 (another process opens the port at a time nothing announces)
            client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
            while not _answers(client):
                self._check_alive(self._process, deadline)
        except BaseException:
            self.kill()
            raise

    def _check_alive(self, process: GuardedProcess, deadline: float) -> None:
        code = process.poll()
        if code is not None:
            raise BrokerStartError(f"ended with exit code {code}", exit_code=code, log=self.log)
        if time.monotonic() > deadline:
            raise BrokerStartError(f"was not ready after {START_SECONDS:g} s", exit_code=None, log=self.log)

    @property
    def running(self) -> bool:
        """Whether the Java process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``bootstrap.servers`` for clients.

        Raises:
            TransportError: it has never been started.
        """
        if self._port is None:
            raise TransportError(_NOT_RUNNING)
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """The process id of the Java process.

        Raises:
            TransportError: it is not running.
        """
        if self._process is None or not self.running:
            raise TransportError(_NOT_RUNNING)
        return self._process.pid

    @property
    def log(self) -> Path:
        """The file with the broker's warnings and errors.

        Raises:
            TransportError: it has never been started.
        """
        if self._home is None:
            raise TransportError(_NOT_RUNNING)
        return self._home / "broker.log"

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create those of the topics that do not exist, with these numbers of partitions and the default replication.

        Returns when the broker lists them, and their partitions have leaders.

        Raises:
            AdminError: the broker refuses a name or a number.
            BrokerUnavailableError: the broker does not answer.
        """
        calls = self._calls()
        existing = calls.metadata().topics
        for name, number in partitions.items():
            if name not in existing:
                new = NewTopic(name, num_partitions=number)
                calls.each(f"create topic {name}", partial(calls.client.create_topics, [new]))
        self._await_topics(
            calls,
            lambda topics: all(
                name in topics and all(each.leader >= 0 for each in topics[name].partitions.values())
                for name in partitions
            ),
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete those of the topics that exist, and return when the broker does not list them any more.

        Raises:
            AdminError, BrokerUnavailableError: as :meth:`create_topics`.
        """
        calls = self._calls()
        if found := sorted(calls.metadata().topics.keys() & set(names)):
            calls.each("delete topics", partial(calls.client.delete_topics, found))
            self._await_topics(calls, lambda topics: topics.keys().isdisjoint(found))

    def _calls(self) -> AdminCalls:
        return AdminCalls({"bootstrap.servers": self.bootstrap_servers}, timeout_s=_TOPICS_TIMEOUT_S)

    @staticmethod
    def _await_topics(calls: AdminCalls, condition: Callable[[Mapping[str, TopicMetadata]], bool]) -> None:
        """Wait until the broker has applied what its controller has decided, for a while."""
        deadline = time.monotonic() + _TOPICS_TIMEOUT_S
        while not condition(calls.metadata().topics) and time.monotonic() < deadline:
            time.sleep(_CHECK_SECONDS)  # noqa: TID251 (nothing announces it)

    def produce(self, records: Iterable[ProducerRecord]) -> None:
        """Write records, and return when the broker has confirmed all of them.

        Raises:
            TransportError: it has refused one, or does not answer.
        """
        producer = open_producer(producer_config({"bootstrap.servers": self.bootstrap_servers}, transactional_id=None))
        errors: list[KafkaError | None] = []
        for topic, partition, key, value, headers in records:
            number = -1 if partition is None else partition
            pairs: list[tuple[str, str | bytes | None]] = list(headers or ())
            producer.produce(
                topic, value, key, number, on_delivery=lambda error, _: errors.append(error), headers=pairs
            )
        unanswered = producer.flush(_TOPICS_TIMEOUT_S)
        if refused := next(filter(None, errors), None):
            raise TransportError(f"the embedded Kafka has refused a record: {refused.str()}")
        if unanswered:
            raise TransportError(f"the embedded Kafka has not confirmed {unanswered} records; see {self.log}")

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
