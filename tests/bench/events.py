"""A handler that logs each delivery immediately to a file, which survives the handler's death."""

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
    """Timestamp of the source record, in epoch seconds."""


class LogsEvents:
    """Each record fails at its first delivery and emits an output at the second."""

    def __init__(self) -> None:
        parameters: dict[str, Any] = json.loads(os.environ[PARAMETERS])
        self._output: str = parameters["output"]
        self._log = os.open(Path(parameters["folder"]) / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, record: Record, context: Context) -> None:
        """Log the delivery, then fail or emit."""
        number, again = int(record.value[:NUMBER_DIGITS]), context.redelivered
        line = f"{number} {record.partition} {int(again)} {time.time()} {record.timestamp_ms / 1000}\n"
        # One write to a file opened for appending is complete even if the process is killed next.
        os.write(self._log, line.encode())
        if not again:
            raise ValueError(number)
        context.send(self._output, record.value, key=record.key)


def read_events(folder: Path) -> list[Event]:
    """Return all events so far, in the order written."""
    path = folder / _FILE
    lines: Iterable[str] = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    found = []
    for line in lines:
        number, partition, succeeded, at_s, written_s = line.split()
        found.append(Event(int(number), int(partition), succeeded == "1", float(at_s), float(written_s)))
    return found
