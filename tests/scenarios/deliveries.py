"""The delivery log: the calls that the handlers under test recorded in a file, outside Kafka and their process."""

import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kafka_redelivery import Context, Record

LOG = "SCENARIO_DELIVERIES"
"""The environment variable with the path of the log."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One line: a handler call that ``began`` or ``ended`` (returned), at ``at_s`` (epoch seconds)."""

    what: Literal["began", "ended"]
    n: int
    attempt: int
    message_id: str
    partition: int
    key: str
    at_s: float
    pid: int


@dataclass(frozen=True, slots=True)
class DeliveryLog:
    """The log of one scenario."""

    path: Path

    def all(self) -> list[Delivery]:
        """Return every line so far, in the order written, without a last line that a kill left incomplete."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [Delivery(**json.loads(line)) for line in lines]

    def began(self) -> list[Delivery]:
        """Return the calls that began."""
        return [line for line in self.all() if line.what == "began"]

    def attempts(self) -> dict[int, list[int]]:
        """Return for each ``n`` the attempt numbers it was delivered with, in the order of delivery."""
        found: dict[int, list[int]] = {}
        for line in self.began():
            found.setdefault(line.n, []).append(line.attempt)
        return found

    def counts(self) -> Counter[int]:
        """Return how often each ``n`` was handed to a handler."""
        return Counter(line.n for line in self.began())


def first_of(record: Record) -> bool:
    """Return whether the log has no delivery of this record yet."""
    return record.value["n"] not in DeliveryLog(Path(os.environ[LOG])).counts()


def note(what: Literal["began", "ended"], record: Record, context: Context) -> None:
    """Append a line. One write to a file opened for appending is complete even if the process is killed next."""
    line = {
        "what": what,
        "n": record.value["n"],
        "attempt": context.attempt,
        "message_id": record.message_id,
        "partition": record.partition,
        "key": (record.raw_key or b"").decode(),
        "at_s": time.time(),
        "pid": os.getpid(),
    }
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, json.dumps(line).encode() + b"\n")
    finally:
        os.close(log)
