"""How long before its records leave a write of the scheduler is begun."""

from __future__ import annotations

from math import ceil

from transport.protocols import Written

_FIRST_S = 0.01
_MOST_S = 0.05
"""An open transaction holds back all read-committed readers of its partitions."""

_WEIGHT = 0.2
"""Of the latest write."""


class Lead:
    """What the writes of late took until only the end of their transaction was left."""

    def __init__(self, first_s: float = _FIRST_S) -> None:
        self._seconds = first_s

    @property
    def ms(self) -> int:
        """Begin so much earlier; rounded up."""
        return ceil(self._seconds * 1000)

    def measured(self, written: Written) -> None:
        """Learn from a write."""
        self._seconds += _WEIGHT * (min(written.prepared_s, _MOST_S) - self._seconds)
