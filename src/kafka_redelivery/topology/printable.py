"""Text of records for people: on a terminal and in logs a control character must do nothing.

A key or the text of an exception may have escape sequences that rename a terminal's window, hide lines or turn the
direction of writing around, and line breaks that forge lines of a log.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Final

LATEST_MS: Final = 253_402_300_799_000
"""The last second of the year 9999 (epoch ms), the latest time that can be shown."""

_UNUSUAL: Final = re.compile(r"[^\n -~]")


def printable(text: str) -> str:
    """Return a text in which each character that cannot be printed is an escape as in Python.

    Line feeds and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def printable_line(text: str) -> str:
    """Return a text as one line: as :func:`printable`, line feeds and tabs included."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def printable_json(text: str) -> str:
    """Return a JSON text with the same content in which each character that cannot be printed is an escape.

    Line feeds, which JSON has between values only, stay.
    """
    return _UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def printable_time(epoch_ms: int) -> str:
    """Return a time to the second in UTC, such as ``2026-03-01 08:00:00 UTC``.

    A header may have any number, so that a time before 1970 or after the year 9999 is shown as that limit.
    """
    return f"{datetime.fromtimestamp(min(max(0, epoch_ms), LATEST_MS) / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
