"""Handlers that measure. They note into memory and write a report when their worker ends."""

import json
import math
import os
import time
from array import array
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from kafka_redelivery import Context, Record, Redeliver, Reject
from tests.bench.tally import NUMBER_DIGITS, Tally

PARAMETERS = "BENCH_PARAMETERS"
"""The environment variable with what a handler is told, as JSON."""


class Measured:
    """What they have in common: parameters, a tally, a report on exit."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = json.loads(os.environ[PARAMETERS])
        self.folder = Path(self.told["folder"])
        self.tally = Tally(self.told["n"], self.folder / "reached")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        written = self.folder / "report.part"
        written.write_text(json.dumps(self.report()), encoding="utf-8")
        written.rename(self.folder / "report.json")

    def report(self) -> dict[str, Any]:
        """What was measured."""
        return self.tally.as_json()


class Passes(Measured):
    """Always succeeds."""

    def __call__(self, record: Record) -> None:
        """Note it."""
        self.tally.note(record.value)


class Emits(Measured):
    """Always succeeds, and writes one record for each."""

    def __init__(self) -> None:
        super().__init__()
        self._output: str = self.told["output"]

    def __call__(self, record: Record, context: Context) -> None:
        """Send it on, to the partition it came from."""
        self.tally.note(record.value)
        context.send(self._output, record.value, key=record.key, partition=record.partition)


class FailsOnce(Measured):
    """The chosen records fail at their first delivery; the next one tells how late it is."""

    def __init__(self) -> None:
        super().__init__()
        n = self.told["n"]
        self._percent = round(self.told["fail_ratio"] * 100)
        self._delay_s = self.told["delay_ms"] / 1000
        self._due_s = array("d", bytes(8 * n))
        self._late_s = array("d", [math.nan]) * n
        self._first_again_s = 0.0

    def __call__(self, record: Record, context: Context) -> None:
        """Fail, or note."""
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
        """Note when it is due, then raise."""
        self._due_s[number] = time.time() + self._delay_s
        raise ValueError(number)

    def report(self) -> dict[str, Any]:
        """Lateness, too."""
        with (self.folder / "late").open("wb") as file:
            self._late_s.tofile(file)
        return super().report() | {"first_again_s": self._first_again_s}


class AsksForDelays(FailsOnce):
    """Each record asks for a delay of its own."""

    def fail(self, number: int) -> NoReturn:
        """As :class:`FailsOnce`."""
        delay_ms = own_delay_ms(number, self.told["longest_ms"])
        self._due_s[number] = time.time() + delay_ms / 1000
        raise Redeliver(after=timedelta(milliseconds=delay_ms))


class AlwaysFails(Measured):
    """Poison: every delivery fails."""

    def __call__(self, record: Record) -> None:
        """Fail."""
        self.tally.begin()
        raise ValueError(record.value[:NUMBER_DIGITS])


class FailsAtLength(Measured):
    """Every delivery fails with a class name of 40 characters and a long message; half of the records give up early."""

    def __call__(self, record: Record, context: Context) -> None:
        """Fail."""
        self.tally.begin()
        message = "x" * 5000
        if int(record.value[:NUMBER_DIGITS]) % 2 and context.attempt == self.told["reject_at"]:
            raise Reject(message)
        raise LONG_NAMED(message)


LONG_NAMED = type("Error".ljust(40, "X"), (ValueError,), {})


def own_delay_ms(number: int, longest_ms: int) -> int:
    """The delay that a record asks for: any length up to the longest, spread evenly."""
    return 1 + number * 7919 % longest_ms


def lateness_ms(folder: Path) -> list[float]:
    """What :class:`FailsOnce` noted, in the order of the numbers."""
    found = array("d")
    data = (folder / "late").read_bytes()
    found.frombytes(data)
    return [late_s * 1000 for late_s in found if not math.isnan(late_s)]
