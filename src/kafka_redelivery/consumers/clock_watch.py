"""Notices that the wall clock was set back."""

from __future__ import annotations

from collections.abc import Callable

from kafka_redelivery.consumers.clock import monotonic_s

_SET_BACK_MS = 500
"""A clock that moves back by more between two turns was set back. An adjusted clock slews by far less."""


class ClockWatch:
    """Compares the wall clock with the monotonic clock.

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

    def set_back_ms(self, now_ms: int) -> int:
        """Return by how many milliseconds the wall clock was set back since the last call; usually 0."""
        before_ms, self._difference_ms = self._difference_ms, self.difference_ms(now_ms)
        if before_ms is None or self._difference_ms >= before_ms - _SET_BACK_MS:
            return 0
        return before_ms - self._difference_ms
