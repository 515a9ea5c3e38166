"""Constants with a form of their own: times, lengths of time, paths and patterns; and the letters that have a case.

Python and DuckDB have other versions of Unicode, and other rules for letters such as the Turkish dotted I. So the table
of letters here, not theirs, is what `lower` and `upper` mean: those of the Latin, Greek and Cyrillic alphabets up to
U+045F of which each case is one character.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

TIMESTAMP_TEXT: Final = (
    r"[1-9][0-9]{3}-[01][0-9]-[0-3][0-9]"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,3})?)?)?"
)
"""A pattern that Python and RE2 read alike: a date, and a time with milliseconds at most. It is UTC."""

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

_STEP: Final = re.compile(
    r"""
    \.(?P<plain>[^\W\d][\w-]*)          # .name
    | \."(?P<quoted>[^"\\*\x00-\x1f]+)"   # ."any name"
    | \['(?P<bracket>[^'"\\*\x00-\x1f]+)'\]  # ['any name']
    | \[(?P<index>[0-9]{1,9})\]          # [0]
    """,
    re.VERBOSE,
)

ESCAPE: Final = "\\"
"""Precedes each character of a canonical pattern that is special and means itself."""

_SPECIAL: Final = frozenset({"%", "_", ESCAPE})


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


def canonical_path(text: str) -> str | None:
    """Return a path with all names quoted, ``None`` if it is not one of names and indexes."""
    if not text.startswith("$"):
        return None
    steps, position = ["$"], 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        index, name = step["index"], step["plain"] or step["quoted"] or step["bracket"]
        steps.append(f'."{name}"' if index is None else f"[{int(index)}]")
        position = step.end()
    return "".join(steps)


def canonical_pattern(pattern: str, escape: str) -> str | None:
    r"""Return a pattern in which a backslash precedes each ``%``, ``_`` and backslash that means itself.

    Args:
        pattern: as it was written.
        escape: the character after ESCAPE; empty = none, so that a backslash is any character.

    Returns:
        ``None`` if the escape character precedes something else than ``%``, ``_`` or itself.
    """
    made, chars = [], iter(pattern)
    for char in chars:
        if escape and char == escape:
            escaped = next(chars, "")
            if escaped not in {"%", "_", escape}:
                return None
            made.append(ESCAPE * (escaped in _SPECIAL) + escaped)
        else:
            made.append(ESCAPE * (char == ESCAPE) + char)
    return "".join(made)


_LATIN_EXTENDED_A_END: Final = 0x180
_GREEK_AND_CYRILLIC: Final = range(0x386, 0x460)


def _pairs() -> list[tuple[str, str]]:
    pairs = []
    for code in (*range(_LATIN_EXTENDED_A_END), *_GREEK_AND_CYRILLIC):
        upper, lower = chr(code), chr(code).lower()
        if upper != lower and len(lower) == 1 and lower.upper() == upper:
            pairs.append((upper, lower))
    return pairs


UPPER: Final = "".join(upper for upper, _ in _pairs())
"""The capital letters."""

LOWER: Final = "".join(lower for _, lower in _pairs())
"""The small letters in the same order."""

_TO_LOWER: Final = str.maketrans(UPPER, LOWER)


def lowered(text: str) -> str:
    """Return a text with its capital letters as small ones."""
    return text.translate(_TO_LOWER)
