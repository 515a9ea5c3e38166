"""Java's integers and 64-bit arithmetic."""

from __future__ import annotations

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)
MAX_LIFETIME_MS = 2**62
"""The longest lifetime in milliseconds: the current time plus this is still a 64-bit number."""


def to_long(value: float) -> int:
    """Convert a double to a long as Java does: towards zero, saturating at 64 bits, NaN to 0."""
    if value != value:  # noqa: PLR0124 - tests for NaN
        return 0
    if value >= LONG_MAX:
        return LONG_MAX
    if value <= LONG_MIN:
        return LONG_MIN
    return int(value)
