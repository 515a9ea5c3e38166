"""An ActiveMQ Classic 5.18 or an Artemis 2.40 from its jars, with a JMS application whose listener fails.

``*_jars.txt`` pin the jars, with which BeanShell starts the brokers: no compiler is needed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kafka_redelivery.transport.broker.jars import kafka_jars
from kafka_redelivery.transport.broker.java import find_java
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

HERE = Path(__file__).parent

QUEUES: Final = {"classic": "ActiveMQ.DLQ", "artemis": "DLQ"}
"""The dead-letter queue of each broker's defaults."""


class Broker:
    """One broker, on a port that stays the same; it may ask for a user and a password."""

    def __init__(self, kind: str, data: Path, *login: str) -> None:
        self._login = login
        self.queue = QUEUES[kind]
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
        options = ["-Xmx192m", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
        options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", ":".join(map(str, jars))]
        program = ["bsh.Interpreter", f"{self._kind}.bsh", str(self._data), str(self._port), *self._login]
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
