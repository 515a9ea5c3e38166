"""Durations as people write them: ``250ms``, ``1s``, ``90s``, ``5m``, ``1h``, ``7d``."""

from __future__ import annotations

import re
from datetime import timedelta

_FORM = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)")
_UNIT = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def parse_duration(value: object) -> timedelta:
    """A duration from its text; a ``timedelta`` passes through.

    Raises:
        ValueError: it is neither; a bare number is refused because it does not tell its unit.
    """
    if isinstance(value, timedelta):
        return value
    match = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        msg = f"a duration needs a number and its unit, like 250ms, 30s, 5m or 7d; got {value!r}"
        raise ValueError(msg)
    try:
        return float(match[1]) * _UNIT[match[2]]
    except OverflowError:
        msg = f"a duration of {value!r} is longer than anything can take"
        raise ValueError(msg) from None


def format_duration(value: timedelta) -> str:
    """The shortest text that :func:`parse_duration` reads back exactly (to the millisecond)."""
    for unit in ("d", "h", "m", "s"):
        if value and value % _UNIT[unit] == timedelta(0):
            return f"{value // _UNIT[unit]}{unit}"
    return f"{value // _UNIT['ms']}ms"
