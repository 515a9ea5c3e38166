"""An ActiveMQ Classic or an Artemis from its jars, with a JMS application whose listener fails.

``*_jars.txt`` pin the jars, with which BeanShell starts the brokers: no compiler is needed. ``classic`` is 5.18 and
``artemis`` is 2.40; ``python -m tests.activemq.broker`` writes the lists of the others.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kafka_redelivery.transport.broker.jars import kafka_jars, lock
from kafka_redelivery.transport.broker.java import find_java
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

HERE = Path(__file__).parent

QUEUES: Final = {"classic": "ActiveMQ.DLQ", "artemis": "DLQ"}
"""The dead-letter queue of each broker's defaults."""

_COMMON: Final = ("org.apache-extras.beanshell:bsh:2.0b6",)
NEWER: Final = {
    "classic-6.3": (
        "org.apache.activemq:activemq-kahadb-store:6.3.1",
        "org.apache.activemq:activemq-stomp:6.3.1",
        "org.slf4j:slf4j-simple:2.0.17",
        *_COMMON,
    ),
    "artemis-2.56": (
        "org.apache.artemis:artemis-stomp-protocol:2.56.0",
        "org.apache.artemis:artemis-jms-client:2.56.0",
        "org.slf4j:slf4j-simple:2.0.17",
        *_COMMON,
    ),
}
"""What runs the brokers of other versions, as ``group:artifact:version``."""


class Broker:
    """One broker, on a port that stays the same; it may ask for a user and a password."""

    def __init__(self, kind: str, data: Path, *login: str) -> None:
        self._login = login
        self.product = kind.partition("-")[0]
        self.queue = QUEUES[self.product]
        self._kind, self._data = kind, data
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where its STOMP connector is."""
        return f"stomp://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, with the messages that it had when it was ended, and wait until it answers."""
        jars = kafka_jars(lock_file=HERE / f"{self._kind}_jars.txt", what=self._kind)
        options = ["-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]
        options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", ":".join(map(str, jars))]
        program = ["bsh.Interpreter", f"{self.product}.bsh", str(self._data), str(self._port), *self._login]
        self._process = subprocess.Popen(
            [find_java(), *options, *program],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._answer() == "started"

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def count(self) -> int:
        """Return how many messages the broker itself counts in its dead-letter queue."""
        return self._ask(f"count {self.queue}")

    def until_it_has(self, number: int) -> None:
        """Wait until it counts so many; what a reader held when it left is counted again a little later."""
        until(lambda: self.count() == number, f"the broker has {number} messages")

    def fill(self, end: int, *, first: int = 0, queue: str = "orders") -> None:
        """Let messages with these numbers die."""
        self._ask(f"fill {queue} {first} {end}")

    def stock(self, end: int, *, first: int = 0) -> None:
        """Put many messages with these numbers into the dead-letter queue, without letting each of them die."""
        self._ask(f"stock {first} {end}")

    def put(self, *kinds: str, compressed: bool = False) -> None:
        """Put one message of each of these kinds into the dead-letter queue; ``jms.bsh`` has their names."""
        self._ask(f"kinds {'compressed' if compressed else 'plain'} {','.join(kinds)}")

    def _ask(self, line: str) -> int:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


if __name__ == "__main__":
    for name, roots in NEWER.items():
        lock(HERE / f"{name}_jars.txt", roots, f"{', '.join(roots)}; written by python -m tests.activemq.broker")
