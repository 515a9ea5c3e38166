"""Checks texts against the types of the brokers' XML schemas."""

from __future__ import annotations

import re

_BLANKS = " \t\r\n"
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_MAX_HEXADECIMAL = 20
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(r"NaN|[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BYTES = re.compile(r"([+-]?[0-9]{1,19})|([0-9]{1,12})[ \t\r\n]*([kmg]?)(?:(?<=[kmg])i)?b?", re.IGNORECASE)
_MEMORY = re.compile(r"\s*[0-9]+\s*([kmg]?b|[kmg])?\s*", re.IGNORECASE)
CONVERTED = frozenset(("string", "editor", "memory"))
"""Types that are text to the schema. The broker itself converts ``editor`` and ``memory`` later."""

_RANGES = {"short": 15, "int": 31, "integer": 31, "long": 63}
"""Bits of each type, without the sign; an ``integer`` of the schema is an ``int`` of Java."""


def words(text: str) -> frozenset[str]:
    """Return the names in a text, which are separated by whitespace."""
    return frozenset(text.split())


def types(**names: str) -> dict[str, str]:
    """Return the type of each name, from lists of names by type."""
    return {name: kind for kind, listed in names.items() for name in listed.split()}


def valid(text: str, kind: str) -> bool:
    """Whether a text is valid for a type of the schema and Java can convert it."""
    if kind == "editor":
        return text.lower() in {"true", "false"}
    if kind == "memory":
        return _MEMORY.fullmatch(text) is not None
    text = text.strip(_BLANKS)
    if kind == "boolean":
        return text in {"true", "false", "1", "0"}
    if kind in _RANGES:
        limit = 1 << _RANGES[kind]
        return _INTEGER.fullmatch(text) is not None and -limit <= int(text) < limit
    if kind == "double":
        return _DOUBLE.fullmatch(text) is not None
    if kind == "bytes":
        return _BYTES.fullmatch(text) is not None
    return True


def value(text: str, kind: str) -> bool | int | float | str:
    """Return the value of a text that is :func:`valid` for the type."""
    stripped = text.strip(_BLANKS)
    if kind == "boolean":
        return stripped in {"true", "1"}
    if kind in _RANGES:
        return int(stripped)
    if kind == "double":
        return float(stripped)
    return _bytes(stripped) if kind == "bytes" else text


def _bytes(text: str) -> int:
    found = _BYTES.fullmatch(text)
    plain, number, unit = found.groups() if found else (text, None, None)
    return int(plain) if number is None else int(number) << 10 * (" kmg".index(unit.lower()) if unit else 0)


def spring_value(text: str, kind: str) -> str:
    """Return the text of a bean's property in the form of the schema; Spring accepts more forms."""
    stripped = text.strip()
    if kind == "boolean":
        words_of = {"on": "true", "yes": "true", "off": "false", "no": "false"}
        return words_of.get(stripped.lower(), stripped.lower())
    if kind in _RANGES:
        bare = stripped.lstrip("+-")
        hexadecimal = next((bare[len(mark) :] for mark in ("0x", "0X", "#") if bare.startswith(mark)), None)
        if hexadecimal and len(hexadecimal) <= _MAX_HEXADECIMAL and not set(hexadecimal) - _HEXADECIMAL:
            return f"{'-' if stripped[0] == '-' else ''}{int(hexadecimal, 16)}"
    return stripped.rstrip("fFdD") if kind == "double" else text
