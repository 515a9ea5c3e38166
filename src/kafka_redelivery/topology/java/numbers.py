"""Java's integers and 64-bit arithmetic; numbers, booleans and queries as Java parses them."""

from __future__ import annotations

import math
import re

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


_INTEGER = re.compile(r"[+-]?\d+")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,6}[fFdD]?")
_ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")


def java_integer(text: str | None, limit: int) -> int | None:
    """Parse as ``Integer.valueOf`` and its like do; ``None`` unless it is a number from ``-limit`` to below ``limit``.

    Digits of all scripts are digits, as in Java.
    """
    if text is None or not _INTEGER.fullmatch(text) or len(text) > len(str(limit)) + 25:
        return None
    number = int(text)
    return number if -limit <= number < limit else None


def java_double(text: str | None) -> float | None:
    """Parse as ``Double.valueOf`` does; ``None`` if the text is not a number."""
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
    """Parse as ``Boolean.valueOf`` does: every text but ``true`` is false."""
    return text.lower() == "true"


def percent_decoded(text: str) -> str:
    """Return a percent-encoded text decoded: ``+`` is a space, ``%41`` a byte of UTF-8; malformed escapes remain."""
    return _ESCAPES.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), text.replace("+", " ")
    )


def decoded_query(query: str) -> dict[str, str | None]:
    """Return the options of a query such as ``a=1&b=2``.

    The last value of a name counts. An option without ``=`` has the value ``None``.

    Source: ``org.apache.activemq.util.URISupport.parseQuery``.
    """
    options: dict[str, str | None] = {}
    relevant = query.rpartition("?")[2].rstrip("&")  # Java's split drops empty strings at the end
    for parameter in relevant.split("&") if relevant else ():
        name, equals, value = parameter.partition("=")
        if equals:
            options[percent_decoded(name)] = percent_decoded(value)
        else:
            options[name] = None
    return options
