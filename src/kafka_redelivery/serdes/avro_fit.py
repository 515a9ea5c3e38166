"""How well a Python value fits an Avro type without parts: what decoding returns if the value is written as that type.

fastavro also writes values of other classes, such as the number of a date, or an ``int`` as a double.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import IntEnum
from numbers import Integral, Real
from typing import Any, Final, TypeAlias
from uuid import UUID

from fastavro.validation import validate
from fastavro.write import LOGICAL_WRITERS


class Fit(IntEnum):
    """What decoding returns."""

    NONE = 0
    """Nothing: the value cannot be written."""

    CONVERTED = 1
    """A value of another class."""

    ROUNDED = 2
    """A value of its class, which may differ: fewer digits, another zone, defaults of missing fields."""

    SAME = 3
    """An equal value of its class."""


Check: TypeAlias = Callable[[Any], Fit]

_BITS: Final = {"int": 32, "long": 64}
_FORMATS: Final = {"float": "<f", "double": "<d"}


def fit_of(schema: str | Mapping[str, Any]) -> tuple[Check, frozenset[str]]:
    """Return the check of a type, and the kinds of Python values that fastavro writes as it.

    Args:
        schema: a type without parts, as ``fastavro.parse_schema`` returns it.
    """
    found: Mapping[str, Any] = {"type": schema} if isinstance(schema, str) else schema
    kind = logical = str(found["type"])
    if found.get("logicalType"):
        logical = f"{kind}-{found['logicalType']}"
    if logical not in _TYPES:
        if logical in LOGICAL_WRITERS:  # one that the application has added
            return lambda value: _by_fastavro(value, found), EVERY_CLASS
        logical = kind  # an unknown logical type is ignored
    classes, check = _TYPES[logical]
    return lambda value: check(value, found), frozenset(classes.split())


def _of_class(value: object, wanted: type) -> Fit:
    if type(value) is wanted:
        return Fit.SAME
    return Fit.ROUNDED if isinstance(value, wanted) else Fit.NONE


def _null(value: object, _schema: Mapping[str, Any]) -> Fit:
    return Fit.SAME if value is None else Fit.NONE


def _boolean(value: object, _schema: Mapping[str, Any]) -> Fit:
    return Fit.SAME if isinstance(value, bool) else Fit.NONE


def _string(value: object, _schema: Mapping[str, Any]) -> Fit:
    return _of_class(value, str)


def _enum(value: object, schema: Mapping[str, Any]) -> Fit:
    return _of_class(value, str) if isinstance(value, str) and value in schema["symbols"] else Fit.NONE


def _integer(value: Any, schema: Mapping[str, Any]) -> Fit:  # noqa: ANN401 - any value
    limit = 1 << _BITS[schema["type"]] - 1
    if not isinstance(value, Integral) or isinstance(value, bool) or not -limit <= int(value) < limit:
        return Fit.NONE
    return _of_class(value, int) or Fit.ROUNDED


def _number(value: object, schema: Mapping[str, Any]) -> Fit:
    """Return the fit of the number that stands for a date or time."""
    return min(Fit.CONVERTED, _integer(value, schema))


def _real(value: Any, schema: Mapping[str, Any]) -> Fit:  # noqa: ANN401 - any value
    if not isinstance(value, Real) or isinstance(value, bool):
        return Fit.NONE
    try:
        form = _FORMATS[schema["type"]]
        (written,) = struct.unpack(form, struct.pack(form, float(value)))
    except OverflowError:
        return Fit.NONE
    same = bool(written == value) or value != value  # noqa: PLR0124 - NaN
    if isinstance(value, float):
        return Fit.SAME if same and type(value) is float else Fit.ROUNDED
    return Fit.CONVERTED if same else Fit.NONE


def _bytes(value: object, schema: Mapping[str, Any]) -> Fit:
    size = schema.get("size")
    if size is None:
        return Fit.ROUNDED if isinstance(value, bytearray) else _of_class(value, bytes)
    return _of_class(value, bytes) if isinstance(value, bytes) and len(value) == size else Fit.NONE


def _decimal(value: object, schema: Mapping[str, Any]) -> Fit:
    if not isinstance(value, Decimal):
        return min(Fit.CONVERTED, _bytes(value, schema))
    sign, digits, exponent = value.as_tuple()
    scale = schema.get("scale", 0)
    if not isinstance(exponent, int) or exponent + scale < 0:
        return Fit.NONE
    if value and len(digits) + exponent + scale > schema["precision"]:
        return Fit.NONE
    return Fit.SAME if exponent == -scale and (value or not sign) else Fit.ROUNDED


def _uuid(value: object, _schema: Mapping[str, Any]) -> Fit:
    if isinstance(value, UUID):
        return Fit.SAME
    try:
        return Fit.CONVERTED if isinstance(value, str) and UUID(value) else Fit.NONE
    except ValueError:
        return Fit.NONE


def _date(value: object, schema: Mapping[str, Any]) -> Fit:
    if isinstance(value, datetime):
        return Fit.CONVERTED
    if isinstance(value, date):
        return Fit.SAME
    try:
        return Fit.CONVERTED if isinstance(value, str) and date.fromisoformat(value) else _number(value, schema)
    except ValueError:
        return Fit.NONE


def _time(value: object, schema: Mapping[str, Any]) -> Fit:
    if not isinstance(value, time):
        return _number(value, schema)
    exact = value.tzinfo is None and value.microsecond % _step(schema) == 0
    return Fit.SAME if exact else Fit.ROUNDED


def _step(schema: Mapping[str, Any]) -> int:
    """Return the unit of a time in microseconds."""
    return 1000 if schema["logicalType"].endswith("millis") else 1


def _timestamp(value: object, schema: Mapping[str, Any]) -> Fit:
    if not isinstance(value, datetime):
        return _number(value, schema)
    local = schema["logicalType"].startswith("local")
    if local and value.tzinfo is not None:
        return Fit.CONVERTED
    exact = value.tzinfo is (None if local else UTC) and value.microsecond % _step(schema) == 0
    return Fit.SAME if exact else Fit.ROUNDED


def _by_fastavro(value: object, schema: Mapping[str, Any]) -> Fit:
    try:
        fits = validate(value, dict(schema), raise_errors=False)
    except Exception:  # noqa: BLE001 - the application's own code
        return Fit.NONE
    return Fit.ROUNDED if fits else Fit.NONE


_TYPES: Final[dict[str, tuple[str, Callable[[Any, Mapping[str, Any]], Fit]]]] = {
    "null": ("null", _null),
    "boolean": ("boolean", _boolean),
    "int": ("int", _integer),
    "long": ("int", _integer),
    "float": ("int float", _real),
    "double": ("int float", _real),
    "bytes": ("bytes", _bytes),
    "fixed": ("bytes", _bytes),
    "string": ("str", _string),
    "enum": ("str", _enum),
    "int-date": ("int date str", _date),
    "int-time-millis": ("int time", _time),
    "long-time-micros": ("int time", _time),
    "long-timestamp-millis": ("int date", _timestamp),
    "long-timestamp-micros": ("int date", _timestamp),
    "long-local-timestamp-millis": ("int date", _timestamp),
    "long-local-timestamp-micros": ("int date", _timestamp),
    "bytes-decimal": ("decimal bytes", _decimal),
    "fixed-decimal": ("decimal bytes", _decimal),
    "string-uuid": ("str uuid", _uuid),
}
"""Of each type the kinds of Python values that fastavro writes as it, and the check."""

EVERY_CLASS: Final = frozenset(" ".join(["list dict", *(classes for classes, _ in _TYPES.values())]).split())
