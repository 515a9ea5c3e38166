"""What the brokers' XML schemas allow, as far as redelivery and dead letters are concerned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from topology.migration.result import MigrationError, place
from topology.migration.xml_tree import Element

_BLANKS = " \t\r\n"
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_MOST_HEXADECIMAL = 20
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(r"NaN|[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BYTES = re.compile(r"([+-]?[0-9]{1,19})|([0-9]{1,12})[ \t\r\n]*([kmg]?)(?:(?<=[kmg])i)?b?", re.IGNORECASE)
_MEMORY = re.compile(r"\s*[0-9]+\s*([kmg]?b|[kmg])?\s*", re.IGNORECASE)
CONVERTED = frozenset(("string", "editor", "memory"))
"""Texts to the schema; ``editor`` and ``memory`` are converted by the broker later, in ways of its own."""

_RANGES = {"short": 15, "int": 31, "integer": 31, "long": 63}
"""Bits of the numbers; what the schema calls an integer is an ``int`` of Java's."""


def words(text: str) -> frozenset[str]:
    """The names in a text, parted by blanks."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Shape:
    """One element: the types of its attributes and the names of its children; ``None`` = any child."""

    attributes: Mapping[str, str]
    children: frozenset[str] | None = frozenset()


def valid(text: str, kind: str) -> bool:
    """Whether a text is of a type of XML Schema, and can be converted by Java, too."""
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
    """A text of a type as a value. Only for what is :func:`valid`."""
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
    """The text of a property of a plain bean, which Spring converts more freely, as the schema would have it."""
    stripped = text.strip()
    if kind == "boolean":
        words_of = {"on": "true", "yes": "true", "off": "false", "no": "false"}
        return words_of.get(stripped.lower(), stripped.lower())
    if kind in _RANGES:
        bare = stripped.lstrip("+-")
        hexadecimal = next((bare[len(mark) :] for mark in ("0x", "0X", "#") if bare.startswith(mark)), None)
        if hexadecimal and len(hexadecimal) <= _MOST_HEXADECIMAL and not set(hexadecimal) - _HEXADECIMAL:
            return f"{'-' if stripped[0] == '-' else ''}{int(hexadecimal, 16)}"
    return text


def check_shape(element: Element, shape: Shape, name: str, *, lenient: bool = False) -> None:
    """Check one element against the schema.

    Args:
        element: as it stands in the file, placeholders included.
        shape: what is allowed there.
        name: of the file.
        lenient: placeholders may stand for values.

    Raises:
        MigrationError: the broker refuses the file because of this element.
    """
    where = place(name, element.line)
    for attribute, text in element.attributes.items():
        kind = shape.attributes.get(attribute)
        if kind is None:
            raise MigrationError(where, f"<{element.name}> has no attribute {attribute}; the broker refuses the file")
        if not valid(text, kind) and not (lenient and "${" in text):
            raise MigrationError(where, f"{attribute}={text!r} is no {kind}; the broker refuses the file")
    if shape.children is not None:
        for child in element.children:
            if child.namespace == element.namespace and child.name not in shape.children:
                raise MigrationError(
                    place(name, child.line),
                    f"<{child.name}> is not allowed in <{element.name}>; the broker refuses the file",
                )
