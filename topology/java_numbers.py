"""Java's arithmetic, where its results are the brokers' answers."""

from __future__ import annotations

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)
LONGEST_LIFE_MS = 2**62
"""Added to the clock it still is a 64-bit number."""


def to_long(value: float) -> int:
    """Java's narrowing of a double: towards zero, saturating at 64 bits, NaN to 0."""
    if value != value:  # noqa: PLR0124 - the one test for NaN that needs no import
        return 0
    if value >= LONG_MAX:
        return LONG_MAX
    if value <= LONG_MIN:
        return LONG_MIN
    return int(value)
