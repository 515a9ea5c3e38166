"""How long writes may be undone before the process gives up."""

from __future__ import annotations

from consumers.clock import monotonic_s
from consumers.errors import HaltedError

GIVE_UP_S = 60.0
"""Writes undone for so long, without one that succeeds, mean that the next one will be, too."""

_QUIET_S = 30.0
"""After so long without a write, an undone one begins a new series: nothing was tried in between."""


class Patience:
    """Counts the time of one series of undone writes."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._last_s = 0.0

    def succeeded(self) -> None:
        """A write went through."""
        self._since_s = None

    def undone(self, cause: str) -> None:
        """A write was undone.

        Raises:
            HaltedError: none has gone through for :data:`GIVE_UP_S`.
        """
        now = monotonic_s()
        if self._since_s is None or now - self._last_s > _QUIET_S:
            self._since_s = now
        self._last_s = now
        if now - self._since_s > GIVE_UP_S:
            raise HaltedError(f"every write of the last {GIVE_UP_S:.0f} s was undone, the last: {cause}")
