"""The only module that reads a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

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
