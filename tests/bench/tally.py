"""Counts records by the number that each carries, cheaply: worker and baseline pay the same for it."""

import time
from itertools import count
from pathlib import Path
from typing import Any

NUMBER_DIGITS = 10
"""Every value begins with its record's number, so wide."""


class Tally:
    """How often each record was seen, and when the first and the last. Thread-safe where numbers differ."""

    def __init__(self, n: int, reached: Path | None = None) -> None:
        """Prepare for ``n`` records; ``reached`` is made when so many were noted."""
        self.seen = bytearray(n)
        self.first_s = self.last_s = self.first_cpu_s = self.last_cpu_s = 0.0
        self._next = count(1).__next__
        self._n = n
        self._reached = reached

    def note(self, value: bytes) -> None:
        """One more."""
        self.seen[int(value[:NUMBER_DIGITS])] += 1
        number = self._next()
        if number == 1:
            self.begin()
        if number >= self._n:
            self.last_s, self.last_cpu_s = time.monotonic(), time.process_time()
            if self._reached is not None:
                self._reached.touch()

    def begin(self) -> None:
        """The clock starts now, unless it runs."""
        if not self.first_s:
            self.first_s, self.first_cpu_s = time.monotonic(), time.process_time()

    def as_json(self) -> dict[str, Any]:
        """What there is to know."""
        lost = self.seen.count(0)
        return {
            "first_s": self.first_s,
            "last_s": self.last_s,
            "cpu_s": self.last_cpu_s - self.first_cpu_s,
            "first_cpu_s": self.first_cpu_s,
            "lost": lost,
            "doubled": sum(self.seen) - (len(self.seen) - lost),
        }
