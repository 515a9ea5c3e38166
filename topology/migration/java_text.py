"""Texts as Java and XML Schema read them."""

from __future__ import annotations

import math
import re

_INTEGER = re.compile(r"[+-]?\d+")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,6}[fFdD]?")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")


def java_integer(text: str | None, limit: int) -> int | None:
    """``Integer.valueOf`` and its like: ``None`` if it is no number from ``-limit`` to below ``limit``.

    Digits of any script count, as in Java.
    """
    if text is None or not _INTEGER.fullmatch(text) or len(text) > len(str(limit)) + 25:
        return None
    number = int(text)
    return number if -limit <= number < limit else None


def java_double(text: str | None) -> float | None:
    """``Double.valueOf``: ``None`` if it is no number."""
    stripped = "" if text is None else text.strip("".join(map(chr, range(0x21))))
    if _HEXADECIMAL.fullmatch(stripped):
        try:
            return float.fromhex(stripped.rstrip("fFdD"))
        except OverflowError:
            return -math.inf if stripped[0] == "-" else math.inf
    if not _DECIMAL.fullmatch(stripped):
        return None
    if stripped.lstrip("+-") in {"NaN", "Infinity"}:
        return math.nan if stripped.endswith("NaN") else math.copysign(math.inf, -1 if stripped[0] == "-" else 1)
    return float(stripped.rstrip("fFdD"))


def java_boolean(text: str) -> bool:
    """``Boolean.valueOf``: everything but ``true`` is false."""
    return text.lower() == "true"
