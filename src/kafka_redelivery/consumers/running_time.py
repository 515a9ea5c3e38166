"""The time in which this process ran, for the deadlines of handlers.

A process is frozen by SIGSTOP, by ``docker pause`` or when its machine gets no time from its host. A handler is frozen
with it, so that time must not count as time that the handler took.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from threading import Event, Thread

from kafka_redelivery.consumers.clock import monotonic_s, process_cpu_s

TICK_S = 0.25
FROZEN_S = 1.0
"""If a tick is this late, the process was frozen. A shorter stop counts as running time."""

_BUSY = 0.5
"""A process that has used more processor time than this share of the time was not frozen."""

_MAX_FREEZES = 100


class RunningTime:
    """Notices freezes, because the ticks of a thread come late. Thread-safe.

    A handler that keeps Python's lock also delays the ticks. It uses the processor, and a frozen process does not.

    Args:
        clock_s: monotonic seconds.
        cpu_s: seconds of processor time of this process.
    """

    def __init__(self, clock_s: Callable[[], float] = monotonic_s, cpu_s: Callable[[], float] = process_cpu_s) -> None:
        self._clock_s = clock_s
        self._cpu_s = cpu_s
        self._ticked_s = clock_s(), cpu_s()
        self._freezes: tuple[tuple[float, float], ...] = ()
        """Start and end of the latest freezes, ascending."""

    def tick(self) -> None:
        """Note the current time. Called by one thread every :data:`TICK_S`."""
        now_s = self._clock_s()
        freeze = self._freeze(now_s, self._ticked_s)
        if freeze is not None:
            self._freezes = (*self._freezes[1 - _MAX_FREEZES :], freeze)
        self._ticked_s = now_s, self._cpu_s()  # must be last: seconds_ago() would miss the freeze

    def seconds_ago(self, seconds: float) -> float:
        """See :func:`seconds_ago`."""
        end_s, ticked_s = self._clock_s(), self._ticked_s
        freezes = self._freezes
        freeze = self._freeze(end_s, ticked_s)
        if freeze is not None:  # this thread runs again before the one that ticks
            freezes = (*freezes, freeze)
        for began_s, ended_s in reversed(freezes):
            if end_s - seconds >= ended_s:
                break
            seconds -= max(0.0, end_s - ended_s)
            end_s = began_s
        return end_s - seconds

    def _freeze(self, now_s: float, ticked_s: tuple[float, float]) -> tuple[float, float] | None:
        """Return the freeze since a tick (monotonic time and processor time of it), if there was one."""
        late_s = now_s - ticked_s[0]
        if late_s <= FROZEN_S or self._cpu_s() - ticked_s[1] > _BUSY * late_s:
            return None
        return ticked_s[0] + TICK_S, now_s


def seconds_ago(seconds: float) -> float:
    """Return the monotonic time since which this process has run for ``seconds``.

    Freezes are noticed from the first call in a process on.
    """
    return _of_process(os.getpid()).seconds_ago(seconds)


@cache
def _of_process(_: int) -> RunningTime:
    """Return that of the process with this id. A process that was forked has no thread that ticks, and gets one."""
    running = RunningTime()
    Thread(target=_tick, args=(running,), name="running time", daemon=True).start()
    return running


def _tick(running: RunningTime) -> None:
    never = Event()
    while not never.wait(TICK_S):
        running.tick()
