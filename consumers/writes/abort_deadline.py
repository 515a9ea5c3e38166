"""The time after which a process whose writes are aborted again and again gives up."""

from __future__ import annotations

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError

GIVE_UP_AFTER_S = 60.0
"""Longest time between the first and the last aborted write of a series."""

_SERIES_ENDS_AFTER_S = 30.0
"""After so long without an aborted write, the next one begins a new series."""


class AbortDeadline:
    """Measures how long writes have been aborted without one that was committed."""

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._last_s = 0.0

    def succeeded(self) -> None:
        """End the series: a write was committed."""
        self._first_s = None

    def aborted(self, cause: str) -> None:
        """Add an aborted write to the series.

        Args:
            cause: why it was aborted.

        Raises:
            HaltedError: the series is longer than :data:`GIVE_UP_AFTER_S`.
        """
        now = monotonic_s()
        if self._first_s is None or now - self._last_s > _SERIES_ENDS_AFTER_S:
            self._first_s = now
        self._last_s = now
        if now - self._first_s > GIVE_UP_AFTER_S:
            raise HaltedError(
                f"every write of the last {GIVE_UP_AFTER_S:.0f} s was aborted, the last one because: {cause}"
            )
