"""The one place where the clock is read."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Answers the wall clock in epoch ms."""


def wall_clock_ms() -> int:
    """Epoch ms."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds that only ever grow; for deadlines."""
    return time.monotonic()
