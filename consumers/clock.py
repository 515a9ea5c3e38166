"""The one place where the clock is read."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Answers the wall clock in epoch ms."""


def wall_clock_ms() -> int:
    """Epoch ms, rounded down: what is due at a time is not due a fraction of a ms before it."""
    return time.time_ns() // 1_000_000


def failure_clock_ms() -> int:
    """Epoch ms rounded up: what is due so long after a failure is never due a fraction of a ms early."""
    return -(-time.time_ns() // 1_000_000)


monotonic_s = time.monotonic
"""Seconds that only ever grow; for deadlines."""

thread_s = time.thread_time
"""Seconds of processor time that this thread has used."""


def steady_s() -> float:
    """Seconds that only ever grow, where the system can tell also while it was suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
