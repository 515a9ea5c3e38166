"""Durations as text: ``250ms``, ``1s``, ``90s``, ``5m``, ``1h``, ``7d``; and times, which may be given as one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from kafka_redelivery.topology.printable import LATEST_MS

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
"""The length of each unit, the longest unit first."""

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)")
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_WHOLE = re.compile(r"([0-9]{1,16})(ms|s|m|h|d)")


def parse_duration(value: object) -> timedelta:
    """Parse a duration that a person wrote; a ``timedelta`` is returned as it is.

    Raises:
        ValueError: the value is not a duration. A number without a unit is refused, too.
    """
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration; write a number and a unit, such as 250ms, 30s, 5m or 7d")
    try:
        return float(match[1]) * timedelta(milliseconds=_UNITS_MS[match[2]])
    except OverflowError:
        raise ValueError(f"{value!r} is too long for a duration; write a shorter one") from None


def parse_time(text: str, now_ms: int, *, ago: bool) -> int:
    """Parse a time that a person wrote, and return it as epoch ms.

    Args:
        text: an ISO time, in UTC if it names no zone, the last or the next time of this clock in UTC, such as
            ``02:00``, or a duration.
        now_ms: the present (epoch ms).
        ago: whether the time of a clock is the last instead of the next, and a duration is counted back from now.

    Raises:
        ValueError: the text is neither, or the time cannot be shown.
    """
    try:
        try:
            distance_ms = round(parse_duration(text).total_seconds() * 1000)
        except ValueError:
            at_ms = round(_time(text, now_ms, ago=ago).timestamp() * 1000)
        else:
            at_ms = now_ms - distance_ms if ago else now_ms + distance_ms
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a time such as 02:00 or 2026-11-23T02:00 nor a duration such as 2h"
        ) from None
    if not 0 <= at_ms <= LATEST_MS:
        raise ValueError(f"{text!r} is before 1970 or after the year 9999")
    return at_ms


def _time(text: str, now_ms: int, *, ago: bool) -> datetime:
    if _CLOCK.fullmatch(text) is None:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    today = datetime.combine(now, time.fromisoformat(text), UTC)
    if ago:
        return today if today <= now else today - timedelta(days=1)
    return today if today > now else today + timedelta(days=1)


def parse_milliseconds(text: str) -> int | None:
    """Return the milliseconds for which :func:`format_milliseconds` writes this text, ``None`` if there are none."""
    match = _WHOLE.fullmatch(text)
    milliseconds = 0 if match is None else int(match[1]) * _UNITS_MS[match[2]]
    return milliseconds if format_milliseconds(milliseconds) == text else None


def format_duration(value: timedelta) -> str:
    """Return the shortest text that :func:`parse_duration` reads as the same number of milliseconds."""
    return format_milliseconds(value // timedelta(milliseconds=1))


def format_milliseconds(milliseconds: int) -> str:
    """Return the text of a duration, in the longest unit that gives a whole number."""
    unit = next(unit for unit, length in _UNITS_MS.items() if milliseconds % length == 0)
    return f"{milliseconds // _UNITS_MS[unit]}{unit if milliseconds else 'ms'}"
