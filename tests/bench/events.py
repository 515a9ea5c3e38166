"""A handler whose notes survive its death: one line for each delivery, written at once."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_redelivery import Context, Record
from tests.bench.handlers import PARAMETERS
from tests.bench.tally import NUMBER_DIGITS

_FILE = "events"


@dataclass(frozen=True, slots=True)
class Event:
    """A delivery of the record ``number`` of partition ``partition``, at ``at_s`` (epoch seconds)."""

    number: int
    partition: int
    succeeded: bool
    at_s: float
    written_s: float
    """When the source record was written."""


class LogsEvents:
    """Each record fails at its first delivery and emits an output at the second."""

    def __init__(self) -> None:
        told: dict[str, Any] = json.loads(os.environ[PARAMETERS])
        self._output: str = told["output"]
        self._log = os.open(Path(told["folder"]) / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, record: Record, context: Context) -> None:
        """Note, then fail or emit."""
        number, again = int(record.value[:NUMBER_DIGITS]), context.redelivered
        line = f"{number} {record.partition} {int(again)} {time.time()} {record.timestamp_ms / 1000}\n"
        # One write to a file opened for appending is whole, whoever is killed.
        os.write(self._log, line.encode())
        if not again:
            raise ValueError(number)
        context.send(self._output, record.value, key=record.key)


def read_events(folder: Path) -> list[Event]:
    """All so far, in the order written."""
    path = folder / _FILE
    lines: Iterable[str] = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    found = []
    for line in lines:
        number, partition, succeeded, at_s, written_s = line.split()
        found.append(Event(int(number), int(partition), succeeded == "1", float(at_s), float(written_s)))
    return found
