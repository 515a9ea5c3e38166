"""A group of real processes with its configuration, topics, workers and schedulers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from confluent_kafka import KafkaException

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin.preflight import make_topics
from kafka_redelivery.transport.broker.guard import GuardedProcess
from kafka_redelivery.transport.kafka_errors import is_transient
from tests.scenarios.cluster import Cluster, Pairs, Seen, Sent
from tests.scenarios.deliveries import LOG, DeliveryLog
from tests.scenarios.handlers import OUTPUT
from tests.scenarios.waiting import LONG_S, until
from tests.scenarios.warm import WarmProcess

COMMAND = ("-c", "from kafka_redelivery.cli.main import app; app()")

Role = Literal["worker", "scheduler", "run", "pipeline stream"]

_MARKERS_S: Final = 2.0
"""Kafka writes the markers of a transaction within milliseconds; much longer only on a busy machine."""

_SHOWN_S: Final = 10.0
"""How long the records of a transaction may stay hidden when its offsets are there already."""

KILLED_S: Final = 60.0
"""How long a killed process may take to be gone; its guard has to run for that."""

SHORT_SESSION: Final = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
"""The shortest session that a broker allows, for tests in which a group has to notice that a process is gone."""


class Process:
    """A process of a group; it ends with the test at the latest.

    Args:
        name: a name for messages.
        command: the arguments of the interpreter.
        environment: its environment.
        log: the file that gets what it writes.
        warm: whether it is forked with its modules loaded, instead of a fresh interpreter.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, *, warm: bool = False
    ) -> None:
        self.name = name
        self._log = log
        self._child: GuardedProcess | WarmProcess
        with log.open("ab") as output:
            self._begins = output.tell()
            if warm:
                self._child = WarmProcess(command, env=environment, stdout=output, stderr=output)
            else:
                self._child = GuardedProcess(
                    [sys.executable, *command], grace_seconds=1, env=environment, stdout=output, stderr=output
                )

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._child.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the worker or scheduler itself."""
        return self._child.pid

    @property
    def log(self) -> str:
        """The log of this process and of its predecessors of the same name."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def own_log(self) -> str:
        """The log of this process alone."""
        return self._log.read_bytes()[self._begins :].decode(errors="replace")

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait until it has ended."""
        assert self.running, f"{self.name} ended before it could be killed:\n{self.log}"
        self._child.kill()
        self._child.wait(KILLED_S)

    def terminate(self) -> None:
        """Send SIGTERM; do not wait."""
        self._child.terminate()

    def wait(self, within_s: float) -> int:
        """Wait until the process ends and return its exit code, negative for a signal."""
        try:
            return self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {within_s:g} s:\n{self.log[-3000:]}") from None

    def stop(self, within_s: float = 40) -> None:
        """Send SIGTERM and wait; the process must end with exit code 0."""
        self.begin_to_stop()
        self.finish_stopping(within_s)

    def begin_to_stop(self) -> None:
        """Send SIGTERM once the process handles it."""
        assert self.running, f"{self.name} had ended:\n{self.log[-3000:]}"
        # A SIGTERM before the program has installed its signal handler ends it at once and proves nothing.
        until(lambda: b" reads " in self._log.read_bytes()[self._begins :] or not self.running, f"{self.name} starts")
        self.terminate()

    def finish_stopping(self, within_s: float = 40) -> None:
        """Wait until the process has ended; its exit code must be 0."""
        code = self.wait(within_s)
        assert code == 0, f"{self.name} ended with {code}:\n{self.log[-3000:]}"

    def end(self) -> None:
        """Kill the process if it still runs; used for cleaning up."""
        if self.running:
            self._child.kill()
            self._child.wait(KILLED_S)


@dataclass(slots=True)
class Group:
    """A consumer group under test. ``name`` is unique, and so are all names derived from it."""

    cluster: Cluster
    name: str
    folder: Path
    configuration: dict[str, Any] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The source topic."""
        return f"{self.name}.in"

    @property
    def output(self) -> str:
        """The topic that handlers emit to."""
        return f"{self.name}.out"

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic of the source."""
        return f"DLQ.{self.source}"

    @property
    def ready(self) -> str:
        """The ready topic of the source."""
        return f"{self.name}.ready.{self.source}"

    @property
    def journal(self) -> str:
        """The journal topic, if the journal is on."""
        return f"{self.name}.journal"

    @property
    def deliveries(self) -> DeliveryLog:
        """The calls that its handlers recorded."""
        return DeliveryLog(self.folder / "deliveries.jsonl")

    def tier(self, delay: str) -> str:
        """Return the retry topic of a tier such as ``500ms``."""
        return f"{self.name}.retry.{delay}"

    def prepare(self, partitions: int = 2, output: Mapping[str, str] | None = None, **sections: object) -> None:
        """Write the configuration, create the source, the output and all topics that the configuration needs.

        Args:
            partitions: number of partitions of source and output.
            output: properties of the output topic.
            sections: sections of the configuration that replace the defaults of :meth:`configure`.
        """
        self.configure(**sections)
        self.cluster.create(self.source, partitions=partitions)
        self.cluster.create(self.output, partitions=partitions, config=output)
        self.apply()

    def configure(self, **sections: object) -> None:
        """Write the configuration; sections that are not given keep their earlier value."""
        base: dict[str, Any] = {
            "group": self.name,
            "kafka": {},
            "sources": [{"topic": self.source, "value": {"format": "json"}}],
            "handler": {},
            "deadLetters": {"index": {"path": str(self.folder / "index")}},
            "policyEntry": {"redeliveryPolicy": {"initialRedeliveryDelay": 200, "redeliveryDelay": 200}},
        }
        self.configuration = base | self.configuration | sections
        whole = self.configuration | {
            "kafka": {"bootstrap.servers": self.cluster.servers, "log_level": 0} | self.configuration["kafka"],
            "handler": {"callable": "tests.scenarios.handlers:scripted"} | self.configuration["handler"],
        }
        # JSON is YAML.
        self.file.write_text(json.dumps(whole), encoding="utf-8")

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "redelivery.yaml"

    def apply(self) -> None:
        """Do what ``redelivery topology apply`` does."""
        make_topics(load_settings(self.file.read_text(encoding="utf-8")), time.time_ns() // 1_000_000)

    def worker(self, instance: str | None = "w1", *, program: Sequence[str] = COMMAND) -> Process:
        """Start a worker."""
        return self.start("worker", instance, program=program)

    def scheduler(self, instance: str | None = "s1", *, program: Sequence[str] = COMMAND) -> Process:
        """Start a scheduler."""
        return self.start("scheduler", instance, program=program)

    def start(self, role: Role, instance: str | None, *settings: str, program: Sequence[str] = COMMAND) -> Process:
        """Start a process through the command line, with additional settings."""
        command = [*program, *role.split(), "--config", str(self.file)]
        if instance is not None:
            settings = (f"instance={instance}", *settings)
        command += [f"--set={setting}" for setting in settings]
        name = f"{role.split()[-1]}-{instance or len(self.processes)}"
        environment = {**os.environ, OUTPUT: self.output, LOG: str(self.deliveries.path)}
        log = self.folder / f"{name}.log"
        # Another program changes modules before others import them. The libraries of Spark start threads.
        warm = program == COMMAND and role != "pipeline stream"
        process = Process(name, command, environment, log, warm=warm)
        self.processes.append(process)
        return process

    def send(self, scripts: Iterable[Sequence[str]], *, first: int = 0, headers: Pairs = (), keys: int = 20) -> None:
        """Write a source record for each script, numbered from ``first``, spread over ``keys`` keys."""
        self.cluster.produce(
            self.source, [script(n, do, headers=headers, keys=keys) for n, do in enumerate(scripts, start=first)]
        )

    # Results.

    def internal(self) -> tuple[list[str], list[str]]:
        """Return the existing topics of the group: those that workers read, and those that schedulers read."""
        existing = self.cluster.topics()
        waiting = [topic for topic in existing if topic.startswith(f"{self.name}.retry.")]
        return [topic for topic in (self.source, self.ready) if topic in existing], waiting

    def pending(self) -> list[Seen]:
        """Return every record that the group has not finished."""
        return self._pending(*self.internal())

    def _pending(self, read: Sequence[str], waiting: Sequence[str]) -> list[Seen]:
        return [
            *self.cluster.unfinished(self.name, *read),
            *self.cluster.unfinished(f"{self.name}.scheduler", *waiting),
        ]

    def settled(self) -> bool:
        """Return whether nothing is pending; a record that moves between topics meanwhile is not missed."""
        return self._settled(*self.internal())

    def _settled(self, read: Sequence[str], waiting: Sequence[str]) -> bool:
        try:
            before = self.cluster.ends(*read, *waiting)
            return not self._pending(read, waiting) and self.cluster.ends(*read, *waiting) == before
        except KafkaException as exception:
            if not is_transient(exception.args[0]):
                raise
            return False  # Kafka has just started

    def settle(self, within_s: float = LONG_S) -> None:
        """Wait until nothing is pending, and what was written with the last offsets can be read."""
        # To list the topics of all tests takes longer than the rest, so that is done before and after.
        names = self.internal()
        while True:
            until(partial(self._settled, *names), f"nothing is pending in {self.name}", within_s=within_s)
            if names == (names := self.internal()):
                break
        # Kafka shows the offsets and the records of a transaction one after the other, in either order. What hides
        # them for longer, such as a transaction that a killed process has left open, is up to the test.
        with suppress(AssertionError, KafkaException):
            self.cluster.wait_for_markers(self.output, self.dead_letters, self.journal, within_s=_SHOWN_S)

    def outputs(self) -> Counter[int]:
        """Return the numbers of the emitted records, and how often each occurs."""
        return Counter(int(record.value or b"-1") for record in self.cluster.read(self.output))

    def dead(self) -> Counter[int]:
        """Return the numbers of the dead letters, and how often each occurs."""
        return Counter(number(record) for record in self.cluster.read(self.dead_letters))

    def stop(self) -> None:
        """Stop all running processes with SIGTERM, at the same time."""
        running = [process for process in self.processes if process.running]
        for process in running:
            process.begin_to_stop()
        for process in running:
            process.finish_stopping()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend all running processes, so that Kafka can stop in the middle of their work.

        A transaction that Kafka has committed gets its markers first. A single broker that is stopped before that can
        lose them when it starts again (KAFKA-20734).
        """
        running = [process for process in self.processes if process.running]
        for process in running:
            os.kill(process.pid, signal.SIGSTOP)
        time.sleep(_MARKERS_S)
        try:
            yield
        finally:
            for process in running:
                os.kill(process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill all processes and print the ends of their logs."""
        for process in self.processes:
            process.end()
        for log in sorted(self.folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-4000:]}")  # noqa: T201


def leave_the_first_unfinished(group: Group) -> None:
    """Let a worker finish and commit all of 20 records but the first, in which it is killed. Its session is short."""
    group.prepare(partitions=1, handler={"ordering": "unordered", "slots": 4}, kafka=SHORT_SESSION)
    group.send([["stall 60"], *[["ok"]] * 19])
    worker = group.worker()
    until(lambda: len(group.outputs()) == 19, "all others are finished")
    until(lambda: group.cluster.committed(group.name, group.source)[group.source, 0][1], "and committed")
    worker.kill()


def script(
    n: int, do: Sequence[str], *, headers: Pairs = (), keys: int = 20, partition: int | None = None, padding: int = 0
) -> Sent:
    """Make a source record with its script and about ``padding`` bytes that hardly compress."""
    value = json.dumps({"n": n, "do": list(do), "padding": os.urandom(padding // 2).hex()}).encode()
    return Sent(value, b"k%d" % (n % keys), headers, partition)


def number(record: Seen) -> int:
    """Return the number that :func:`script` gave a record."""
    return int(json.loads(record.value or b"")["n"])


def exactly(numbers: Iterable[int]) -> Counter[int]:
    """Return a counter with each number once."""
    return Counter(dict.fromkeys(numbers, 1))


SIGKILLED = -signal.SIGKILL
