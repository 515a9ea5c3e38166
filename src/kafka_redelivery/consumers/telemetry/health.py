"""The results of a process's liveness and readiness probes.

A process is alive while its polling thread makes turns and its writes end; nothing else is a reason to restart it. It
is ready while it is a member of its group; halted partitions appear in the body only, since a restart or a stopped
rollout would not help them. A slow handler changes neither.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import timedelta
from typing import NamedTuple

from kafka_redelivery.consumers.clock import monotonic_s

STALLED_AFTER = timedelta(minutes=2)
"""Longer than any call of a client. While Kafka does not answer, each failed call counts as a turn."""

_LONG_CALL_S = 5.0
"""A call that takes longer waits for Kafka."""

_WRITE_FACTOR = 3
"""A write may take so many times as long: its calls, each of at most 30 s, come one after the other."""


class ProbeResult(NamedTuple):
    """The result of a probe."""

    ok: bool
    reason: str


class _Wait(NamedTuple):
    problem: str
    from_s: float
    """When it begins to count."""

    call: bool
    """Whether it is a call, which can last as long as an outage."""


class Health:
    """The polling thread and the clients update it, and the endpoint's threads read it, without a lock.

    Args:
        stalled_after: the longest time between two turns of the polling thread; a write may take three times as long.
        clock_s: monotonic seconds.
    """

    def __init__(self, stalled_after: timedelta = STALLED_AFTER, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._stalled_after_s = stalled_after.total_seconds()
        self._clock_s = clock_s
        self._turned_s = self._idle_s = clock_s()
        self._waits: dict[str, _Wait] = {}
        """What each client waits for until Kafka answers."""

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

    def waiting(self, client: str, problem: str | None, *, call: bool = False) -> None:
        """See :class:`Report`. Threads may wait with the client, so a report counts as a turn, and no write hangs."""
        if problem is None and client not in self._waits:
            return
        self.turned()
        if problem is None:
            self._waits.pop(client, None)
        else:
            self._waits[client] = _Wait(problem, self._turned_s + (_LONG_CALL_S if call else 0.0), call)

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

    def faults(self, without: Container[str]) -> str:
        """Return what keeps records waiting, a line each: what hangs, and the notes but for some subjects.

        The text stays the same while the same does.
        """
        alive = self.alive()
        hangs = alive.reason.partition(" for ")[0]
        notes = [text for subject, text in list(self._notes.items()) if text and subject not in without]
        return "\n".join([*([] if alive.ok else [f"{hangs} for a long time; restart it"]), *notes])

    def alive(self) -> ProbeResult:
        """Not ok if the polling thread or the writing thread hangs, so that only a restart helps."""
        if any(wait.call for wait in list(self._waits.values())):
            return ProbeResult(ok=True, reason="alive")
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
        """Not ok while the process is stopping, waits for Kafka, is stalled or no member of its group."""
        if self._stopping:
            return ProbeResult(ok=False, reason="stopping")
        waits = [wait.problem for wait in list(self._waits.values()) if self._clock_s() >= wait.from_s]
        if waits:
            return ProbeResult(ok=False, reason=f"waiting for Kafka: {'; '.join(dict.fromkeys(waits))}")
        if not self._joined:
            return ProbeResult(ok=False, reason="waiting for the group to assign partitions")
        alive = self.alive()
        if not alive.ok:
            return alive
        notes = [text for text in list(self._notes.values()) if text]
        return ProbeResult(ok=True, reason="\n".join(["ready", *notes]))
