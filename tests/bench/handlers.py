"""Handlers that measure in memory and write a report when their worker ends."""

import json
import math
import os
import time
from array import array
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from examples.flights.handler import BookOfFlights
from kafka_redelivery import Batch, Context, Record, Redeliver, Reject
from tests.bench.tally import NUMBER_DIGITS, Tally

PARAMETERS = "BENCH_PARAMETERS"
"""The environment variable with the handler's parameters as JSON."""


class Measured:
    """Base class with parameters, a tally, and a report on exit."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = json.loads(os.environ[PARAMETERS])
        self.folder = Path(self.parameters["folder"])
        self.tally = Tally(self.parameters["n"], self.folder / "reached")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        written = self.folder / "report.part"
        written.write_text(json.dumps(self.report()), encoding="utf-8")
        written.rename(self.folder / "report.json")

    def report(self) -> dict[str, Any]:
        """Return the measurements."""
        return self.tally.as_json()


class Passes(Measured):
    """Always succeeds."""

    def __call__(self, record: Record) -> None:
        """Count the record."""
        self.tally.note(record.value)


class AsksBook:
    """Asks a service about each record."""

    def __init__(self) -> None:
        self._book = BookOfFlights(json.loads(os.environ[PARAMETERS])["address"])

    def __call__(self, record: Record, context: Context) -> None:
        """Ask; the service learns key, number and attempt."""
        number = int((record.value or b"")[:NUMBER_DIGITS])
        self._book.look_up({"carrier": (record.key or b"").decode(), "flight": f"{number}/{context.attempt}"})


class PassesBatches(Measured):
    """Always succeeds, and does nothing with the records of a batch."""

    def __call__(self, batch: Batch) -> None:
        """Count the records."""
        self.tally.note_batch(len(batch))


class LooksAtBatches(Measured):
    """Always succeeds, and looks at each record of a batch."""

    def __call__(self, batch: Batch) -> None:
        """Count each record."""
        for record in batch:
            self.tally.note(record.value)


class Emits(Measured):
    """Always succeeds and emits one record for each."""

    def __init__(self) -> None:
        super().__init__()
        self._output: str = self.parameters["output"]

    def __call__(self, record: Record, context: Context) -> None:
        """Emit the record to the partition it came from."""
        self.tally.note(record.value)
        context.send(self._output, record.value, key=record.key, partition=record.partition)


class FailsOnce(Measured):
    """Fails the chosen records at their first delivery and measures the lateness of the second."""

    def __init__(self) -> None:
        super().__init__()
        n = self.parameters["n"]
        self._percent = round(self.parameters["fail_ratio"] * 100)
        self._delay_s = self.parameters["delay_ms"] / 1000
        self._due_s = array("d", bytes(8 * n))
        self._late_s = array("d", [math.nan]) * n
        self._first_again_s = 0.0

    def __call__(self, record: Record, context: Context) -> None:
        """Fail the first delivery, measure the second."""
        number = int(record.value[:NUMBER_DIGITS])
        if context.redelivered:
            self._late_s[number] = time.time() - self._due_s[number]
            if not self._first_again_s:
                self._first_again_s = time.monotonic()
        elif number % 100 < self._percent:
            self.tally.begin()
            self.fail(number)
        self.tally.note(record.value)

    def fail(self, number: int) -> NoReturn:
        """Store the due time, then raise."""
        self._due_s[number] = time.time() + self._delay_s
        raise ValueError(number)

    def report(self) -> dict[str, Any]:
        """Add the lateness to the report."""
        with (self.folder / "late").open("wb") as file:
            self._late_s.tofile(file)
        return super().report() | {"first_again_s": self._first_again_s}


class AsksForDelays(FailsOnce):
    """Fails each record once with a delay of its own."""

    def fail(self, number: int) -> NoReturn:
        """Store the due time, then ask for the record's own delay."""
        delay_ms = own_delay_ms(number, self.parameters["longest_ms"])
        self._due_s[number] = time.time() + delay_ms / 1000
        raise Redeliver(after=timedelta(milliseconds=delay_ms))


class AlwaysFails(Measured):
    """Fails every delivery."""

    def __call__(self, record: Record) -> None:
        """Fail."""
        self.tally.begin()
        raise ValueError(record.value[:NUMBER_DIGITS])


class FailsAtLength(Measured):
    """Fails every delivery with a class name of 40 characters and a long message; half are rejected early."""

    def __call__(self, record: Record, context: Context) -> None:
        """Fail."""
        self.tally.begin()
        message = "x" * 5000
        if int(record.value[:NUMBER_DIGITS]) % 2 and context.attempt == self.parameters["reject_at"]:
            raise Reject(message)
        raise LONG_NAMED(message)


LONG_NAMED = type("Error".ljust(40, "X"), (ValueError,), {})


def own_delay_ms(number: int, longest_ms: int) -> int:
    """Return the delay that a record asks for; delays are spread evenly from 1 ms to ``longest_ms``."""
    return 1 + number * 7919 % longest_ms


def lateness_ms(folder: Path) -> list[float]:
    """Return the lateness that :class:`FailsOnce` measured, in the order of the numbers."""
    found = array("d")
    data = (folder / "late").read_bytes()
    found.frombytes(data)
    return [late_s * 1000 for late_s in found if not math.isnan(late_s)]
