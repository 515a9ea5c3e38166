"""Counts records by the number that each carries; worker and baseline bear the same small cost."""

import time
from itertools import count
from pathlib import Path
from typing import Any

NUMBER_DIGITS = 10
"""Digits of the record's number with which each value begins."""


class Tally:
    """Counts deliveries by number, with the times of the first and last.

    Threads may note different numbers concurrently.
    """

    def __init__(self, n: int, reached: Path | None = None) -> None:
        """Prepare for ``n`` records; the file ``reached`` is created once ``n`` records were noted."""
        self.seen = bytearray(n)
        self.first_s = self.last_s = self.first_cpu_s = self.last_cpu_s = 0.0
        self.batched = 0
        """Number of the records that were counted without a look at them."""

        self._next = count(1).__next__
        self._n = n
        self._reached = reached

    def note(self, value: bytes) -> None:
        """Count a record."""
        self.seen[int(value[:NUMBER_DIGITS])] += 1
        number = self._next()
        if number == 1:
            self.begin()
        if number >= self._n:
            self._reach()

    def note_batch(self, number: int) -> None:
        """Count records without looking at them. One thread notes all of them."""
        self.begin()
        before, self.batched = self.batched, self.batched + number
        if before < self._n <= self.batched:
            self._reach()

    def _reach(self) -> None:
        self.last_s, self.last_cpu_s = time.monotonic(), time.process_time()
        if self._reached is not None:
            self._reached.touch()

    def begin(self) -> None:
        """Start the clock if it has not started."""
        if not self.first_s:
            self.first_s, self.first_cpu_s = time.monotonic(), time.process_time()

    def as_json(self) -> dict[str, Any]:
        """Return all counts and times."""
        lost = self.seen.count(0)
        if self.batched:
            lost = max(0, self._n - self.batched)
        return {
            "first_s": self.first_s,
            "last_s": self.last_s,
            "cpu_s": self.last_cpu_s - self.first_cpu_s,
            "first_cpu_s": self.first_cpu_s,
            "lost": lost,
            "doubled": max(0, self.batched - self._n) if self.batched else sum(self.seen) - (len(self.seen) - lost),
        }
