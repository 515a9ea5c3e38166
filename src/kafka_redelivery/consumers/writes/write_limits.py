"""How large a write may be: smaller after an aborted one, larger again after those that were fast."""

from __future__ import annotations

_FAST_S = 5.0
"""A write that takes longer may time out if it is twice as large."""


class WriteLimits:
    """The number of records in a write, and their size with their outputs."""

    def __init__(self, max_records: int, max_bytes: int = 2**62) -> None:
        """Start with the largest writes.

        Args:
            max_records: number of records at most.
            max_bytes: size of the records and their outputs at most, or a little more.
        """
        self._max_records, self._max_bytes = max_records, max_bytes
        self.records, self.bytes = max_records, max_bytes

    @property
    def reduced(self) -> bool:
        """Whether writes have to be smaller at present."""
        return self.records < self._max_records or self.bytes < self._max_bytes

    def full(self, records: int, size: int) -> bool:
        """Whether a write of this size may not become larger."""
        return records >= self.records or size >= self.bytes

    def aborted(self, records: int, size: int | None = None) -> None:
        """Make the next write half as large as this one.

        Args:
            records: number of its records.
            size: size of these records and their outputs; ``None`` = not limited.
        """
        self.records = max(1, min(self.records, records) // 2)
        if size is not None:
            self.bytes = max(1, min(self.bytes, size) // 2)

    def committed(self, seconds: float) -> None:
        """Double the limits if the write was fast."""
        if self.reduced and seconds < _FAST_S:
            self.records = min(self._max_records, 2 * self.records)
            self.bytes = min(self._max_bytes, 2 * self.bytes)
