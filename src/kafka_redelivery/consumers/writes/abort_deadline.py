"""What a process does whose writes are aborted again and again: it pauses between them, or gives up after a time."""

from __future__ import annotations

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError

GIVE_UP_AFTER_S = 60.0
"""Longest time between the first and the last aborted write of a series."""

_SERIES_ENDS_AFTER_S = 30.0
"""After so long without an aborted write, the next one begins a new series."""

_ENDURED_SERIES_ENDS_AFTER_S = 120.0
"""The same for a process that endures: longer than a write that times out."""


_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


class AbortDeadline:
    """Measures how long writes have been aborted without one that was committed."""

    def __init__(self, *, endures: bool = False) -> None:
        """Begin without an aborted write.

        Args:
            endures: whether the process never gives up.
        """
        self._endures = endures
        self._ends_after_s = _ENDURED_SERIES_ENDS_AFTER_S if endures else _SERIES_ENDS_AFTER_S
        self._first_s: float | None = None
        self._last_s = self._until_s = self._pause_s = 0.0
        self._cause = ""

    @property
    def pause_left_s(self) -> float:
        """Seconds until the next write may begin. Records are handled meanwhile, up to a full batch."""
        return max(0.0, self._until_s - monotonic_s()) if self._until_s else 0.0

    @property
    def failing_s(self) -> float:
        """Seconds since the first write of the series was aborted; 0 if there is none."""
        return 0.0 if self._first_s is None or self._has_ended() else monotonic_s() - self._first_s

    @property
    def problem(self) -> str | None:
        """What to report while the series is longer than :data:`GIVE_UP_AFTER_S`."""
        if self._first_s is None or self._last_s - self._first_s <= GIVE_UP_AFTER_S or self._has_ended():
            return None
        return f"every write of the last {self._last_s - self._first_s:.0f} s was aborted, because: {self._cause}"

    def succeeded(self) -> None:
        """End the series: a write was committed."""
        self._first_s = None
        self._pause_s = self._until_s = 0.0

    def pause(self) -> None:
        """Let the next write wait, unless this is the first aborted write: each time twice as long."""
        self._until_s = monotonic_s() + self._pause_s
        self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LONGEST_PAUSE_S)

    def aborted(self, cause: str) -> None:
        """Add an aborted write to the series.

        Args:
            cause: why it was aborted.

        Raises:
            HaltedError: the process does not endure, and the series is longer than :data:`GIVE_UP_AFTER_S`.
        """
        now = monotonic_s()
        if self._first_s is None or self._has_ended():
            self.succeeded()
            self._first_s = now
        self._last_s, self._cause = now, cause
        if not self._endures and now - self._first_s > GIVE_UP_AFTER_S:
            raise HaltedError(
                f"every write of the last {GIVE_UP_AFTER_S:.0f} s was aborted, the last one because: {cause}"
            )

    def _has_ended(self) -> bool:
        return monotonic_s() - self._last_s > self._ends_after_s
