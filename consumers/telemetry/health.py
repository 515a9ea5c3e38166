"""The results of a process's liveness and readiness probes.

A process is alive while its polling thread makes turns and its writes end; nothing else is a reason to restart it. It
is ready while it is a member of its group; halted partitions appear in the body only, since a restart or a stopped
rollout would not help them. A slow handler changes neither.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from kafka_redelivery.consumers.clock import monotonic_s

STALLED_AFTER = timedelta(minutes=2)
"""Longer than any single wait of the polling thread while Kafka does not answer (60 s and one call of 30 s)."""

_WRITE_FACTOR = 3
"""A write may take so many times as long: its calls, each of at most 90 s, come one after the other."""


class ProbeResult(NamedTuple):
    """The result of a probe."""

    ok: bool
    reason: str


class Health:
    """The polling thread updates it, and the endpoint's threads read it. Each update is one assignment without a lock.

    Args:
        stalled_after: the longest time between two turns of the polling thread; a write may take three times as long.
        clock_s: monotonic seconds.
    """

    def __init__(self, stalled_after: timedelta = STALLED_AFTER, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._stalled_after_s = stalled_after.total_seconds()
        self._clock_s = clock_s
        self._turned_s = self._idle_s = clock_s()
        self._joined = False
        self._stopping = False
        self._notes: dict[str, str] = {}

    def turned(self, write_began_s: float | None = None) -> None:
        """The polling thread has made a turn.

        Args:
            write_began_s: when the write in progress began (monotonic); ``None`` if there is none, or if it does not
                hang but waits for Kafka.
        """
        self._turned_s = now_s = self._clock_s()
        self._idle_s = max(self._idle_s, now_s if write_began_s is None else write_began_s)

    def joined(self) -> None:
        """The group has assigned partitions to this process, possibly none."""
        self._joined = True

    def left(self) -> None:
        """The group has removed this process. Nothing is read until it has joined again."""
        self._joined = False

    def note(self, subject: str, text: str) -> None:
        """Add lines to the body of ``/readyz`` while it is 200; an empty text removes it. Safe from any thread."""
        self._notes[subject] = text

    def stopping(self) -> None:
        """A shutdown begins. It has its own time limit, so the time since the last turn starts again at 0."""
        self.turned()
        self._stopping = True

    def alive(self) -> ProbeResult:
        """Not ok if the polling thread or the writing thread hangs, so that only a restart helps."""
        now_s = self._clock_s()
        since_s = now_s - self._turned_s
        if since_s > self._stalled_after_s:
            reason = f"the polling thread has not turned for {since_s:.1f} s, {self._stalled_after_s:g} s are allowed"
            return ProbeResult(ok=False, reason=reason)
        write_s, limit_s = now_s - self._idle_s, _WRITE_FACTOR * self._stalled_after_s
        if write_s > limit_s:
            reason = f"the write in progress has not ended for {write_s:.1f} s, {limit_s:g} s are allowed"
            return ProbeResult(ok=False, reason=reason)
        return ProbeResult(ok=True, reason="alive")

    def ready(self) -> ProbeResult:
        """Not ok while the process is stopping, stalled or no member of its group."""
        if self._stopping:
            return ProbeResult(ok=False, reason="stopping")
        if not self._joined:
            return ProbeResult(ok=False, reason="waiting for the group to assign partitions")
        alive = self.alive()
        if not alive.ok:
            return alive
        notes = [text for text in list(self._notes.values()) if text]
        return ProbeResult(ok=True, reason="\n".join(["ready", *notes]))
