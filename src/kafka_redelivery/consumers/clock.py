"""The only module that reads a clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

_SET_BACK_MS: Final = 500
"""A clock that moves back by more between two turns was set back. An adjusted clock slews by far less."""

Clock = Callable[[], int]
"""Returns the wall clock in epoch ms."""


def wall_clock_ms() -> int:
    """Epoch ms, rounded down: a record never counts as due a fraction of a ms early."""
    return time.time_ns() // 1_000_000


def failure_clock_ms() -> int:
    """Epoch ms, rounded up: a delay that starts at this time never ends a fraction of a ms early."""
    return -(-time.time_ns() // 1_000_000)


monotonic_s = time.monotonic
"""Monotonic seconds, for deadlines."""

process_cpu_s = time.process_time
"""Seconds of processor time that all threads of this process have used."""

thread_cpu_s = time.thread_time
"""Seconds of processor time that the current thread has used."""


def boottime_s() -> float:
    """Monotonic seconds that also count while the machine is suspended, where the system supports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class ClockWatch:
    """Notices that the wall clock was set back: it compares it with the monotonic clock.

    Args:
        clock_s: monotonic seconds.
    """

    def __init__(self, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._clock_s = clock_s
        self._difference_ms: int | None = None
        """Wall clock minus monotonic clock at the last check."""

    def difference_ms(self, now_ms: int) -> int:
        """Return the wall clock minus the monotonic clock."""
        return now_ms - round(self._clock_s() * 1000)

    def was_set_back(self, now_ms: int) -> bool:
        """Whether the wall clock was set back since the last call. Then a line is in the log."""
        before_ms, self._difference_ms = self._difference_ms, self.difference_ms(now_ms)
        if before_ms is None or self._difference_ms >= before_ms - _SET_BACK_MS:
            return False
        _log.warning("the clock was set back by %d ms", before_ms - self._difference_ms)
        return True
