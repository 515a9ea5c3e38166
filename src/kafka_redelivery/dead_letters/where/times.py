"""Timestamps and intervals as an expression writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

TIMESTAMP_TEXT: Final = (
    r"[1-9][0-9]{3}-[01][0-9]-[0-3][0-9]"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,3})?)?)?"
)
"""A pattern that Python, RE2 and Java read alike: a date, and a time with milliseconds at most. It is UTC."""

_TIMESTAMP: Final = re.compile(rf"({TIMESTAMP_TEXT})(Z|[+-][0-9]{{2}}:[0-9]{{2}})?")
_INTERVAL: Final = re.compile(r"([0-9]{1,15})(?:[.]([0-9]{1,3}))?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS: Final = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
UNITS: Final = tuple(_UNITS_MS)
"""The units of an interval, each also with an s."""


def epoch_ms(text: str) -> int | None:
    """Return a timestamp such as ``2026-11-23T02:00`` in epoch ms, ``None`` if it is not one. UTC without a zone."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    try:
        time = datetime.fromisoformat(found[1] + (found[2] or "Z" if len(found[1]) > len("2026-11-23") else ""))
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def interval_ms(number: str, unit: str) -> int | None:
    """Return an interval such as ``2`` and ``hours`` in ms, ``None`` if it is not one."""
    found, factor = _INTERVAL.fullmatch(number), _UNITS_MS.get(unit.lower().removesuffix("s"))
    if found is None or factor is None:
        return None
    return int(found[1]) * factor + int((found[2] or "").ljust(3, "0")) * factor // 1000
