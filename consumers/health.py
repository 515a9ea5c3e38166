"""Whether a process is alive and whether it is ready: what its probes are answered with.

Alive means that the polling thread goes on; nothing else is a reason to kill a process. Ready means that it takes part
in its group and holds nothing back. A handler that is slow changes neither.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from consumers.clock import monotonic_s

STALLED_AFTER = timedelta(minutes=2)
"""Longer than any single wait of the polling thread for a Kafka that does not answer (60 s and one call of 30 s)."""


class Verdict(NamedTuple):
    """The answer to a probe."""

    good: bool
    reason: str


class Health:
    """Told by the polling thread, asked by the thread of the endpoint: each value is one assignment, nothing is locked.

    Args:
        stalled_after: the longest time between two turns of the polling thread.
        clock_s: seconds that only ever grow.
    """

    def __init__(self, stalled_after: timedelta = STALLED_AFTER, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._bound_s = stalled_after.total_seconds()
        self._clock_s = clock_s
        self._turned_s = clock_s()
        self._joined = False
        self._halted = 0
        self._stopping = False

    def turned(self) -> None:
        """The polling thread goes on."""
        self._turned_s = self._clock_s()

    def joined(self) -> None:
        """The group has told which partitions this process has; none is an answer, too."""
        self._joined = True

    def left(self) -> None:
        """The group has given this process up; until it answers again nothing is read."""
        self._joined = False

    def halted(self, partitions: int) -> None:
        """So many partitions are not read until a restart, to protect data."""
        self._halted = partitions

    def stopping(self) -> None:
        """A shutdown begins. It has a bound of its own, so the time until this one's counts anew."""
        self.turned()
        self._stopping = True

    def alive(self) -> Verdict:
        """Bad: the polling thread hangs, and only a restart helps."""
        since_s = self._clock_s() - self._turned_s
        if since_s > self._bound_s:
            reason = f"the polling thread has not turned for {since_s:.1f} s, {self._bound_s:g} s are allowed"
            return Verdict(good=False, reason=reason)
        return Verdict(good=True, reason="alive")

    def ready(self) -> Verdict:
        """Bad: it takes no part in the group, yet or any more, or a partition waits for a person."""
        if self._stopping:
            return Verdict(good=False, reason="stopping")
        if not self._joined:
            return Verdict(good=False, reason="waiting for the group to assign partitions")
        if self._halted:
            return Verdict(good=False, reason=f"{self._halted} halted partitions; the log says why")
        alive = self.alive()
        return Verdict(good=True, reason="ready") if alive.good else alive
