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
_STEPS: Final = {"millis": 1000, "micros": 1}

_TIMESTAMP: Final = frozenset({"int", "date"})
_TIME: Final = frozenset({"int", "time"})
_DECIMAL: Final = frozenset({"decimal", "bytes"})
_CLASSES: Final = {
    "null": frozenset({"null"}),
    "boolean": frozenset({"boolean"}),
    "int": frozenset({"int"}),
    "long": frozenset({"int"}),
    "float": frozenset({"int", "float"}),
    "double": frozenset({"int", "float"}),
    "bytes": frozenset({"bytes"}),
    "fixed": frozenset({"bytes"}),
    "string": frozenset({"str"}),
    "enum": frozenset({"str"}),
    "int-date": frozenset({"int", "date", "str"}),
    "int-time-millis": _TIME,
    "long-time-micros": _TIME,
    "long-timestamp-millis": _TIMESTAMP,
    "long-timestamp-micros": _TIMESTAMP,
    "long-local-timestamp-millis": _TIMESTAMP,
    "long-local-timestamp-micros": _TIMESTAMP,
    "bytes-decimal": _DECIMAL,
    "fixed-decimal": _DECIMAL,
    "string-uuid": frozenset({"str", "uuid"}),
}
EVERY_CLASS: Final = frozenset[str]().union(*_CLASSES.values(), {"list", "dict"})


def fit_of(schema: str | Mapping[str, Any]) -> tuple[Check, frozenset[str]]:
    """Return the check of a type, and the kinds of Python values that fastavro writes as it.

    Args:
        schema: a type without parts, as ``fastavro.parse_schema`` returns it.
    """
    found: Mapping[str, Any] = {"type": schema} if isinstance(schema, str) else schema
    kind = logical = str(found["type"])
    if found.get("logicalType"):
        logical = f"{kind}-{found['logicalType']}"
    if logical not in _CLASSES:
        if logical in LOGICAL_WRITERS:  # one that the application has added
            return lambda value: _by_fastavro(value, found), EVERY_CLASS
        logical = kind  # an unknown logical type is ignored
    return _check(logical, kind, found), _CLASSES[logical]


def _check(logical: str, kind: str, schema: Mapping[str, Any]) -> Check:  # noqa: PLR0911 - one for each type
    match logical:
        case "null":
            return lambda value: Fit.SAME if value is None else Fit.NONE
        case "boolean":
            return lambda value: Fit.SAME if isinstance(value, bool) else Fit.NONE
        case "int" | "long":
            return lambda value: _integer(value, kind)
        case "float" | "double":
            return lambda value: _real(value, kind)
        case "string":
            return lambda value: _of_class(value, str)
        case "enum":
            symbols = frozenset(schema["symbols"])
            return lambda value: _of_class(value, str) if isinstance(value, str) and value in symbols else Fit.NONE
        case "bytes" | "fixed":
            return lambda value: _bytes(value, schema)
        case "bytes-decimal" | "fixed-decimal":
            return lambda value: _decimal(value, schema)
        case "string-uuid":
            return _uuid
        case "int-date":
            return _date
    step = _STEPS[logical.rpartition("-")[2]]
    if "timestamp" not in logical:
        return lambda value: _time(value, step, kind)
    local = "local" in logical
    return lambda value: _timestamp(value, step, local=local)


def _of_class(value: object, wanted: type) -> Fit:
    if type(value) is wanted:
        return Fit.SAME
    return Fit.ROUNDED if isinstance(value, wanted) else Fit.NONE


def _integer(value: Any, kind: str) -> Fit:  # noqa: ANN401 - any value
    limit = 1 << _BITS[kind] - 1
    if not isinstance(value, Integral) or isinstance(value, bool) or not -limit <= int(value) < limit:
        return Fit.NONE
    return Fit.SAME if type(value) is int else Fit.ROUNDED


def _number(value: Any, kind: str) -> Fit:  # noqa: ANN401 - any value
    """Return the fit of the number that stands for a date or time."""
    return min(Fit.CONVERTED, _integer(value, kind))


def _real(value: Any, kind: str) -> Fit:  # noqa: ANN401 - any value
    if not isinstance(value, Real) or isinstance(value, bool):
        return Fit.NONE
    try:
        (written,) = struct.unpack(_FORMATS[kind], struct.pack(_FORMATS[kind], float(value)))
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


def _uuid(value: object) -> Fit:
    if isinstance(value, UUID):
        return Fit.SAME
    try:
        return Fit.CONVERTED if isinstance(value, str) and UUID(value) else Fit.NONE
    except ValueError:
        return Fit.NONE


def _date(value: object) -> Fit:
    if isinstance(value, datetime):
        return Fit.CONVERTED
    if isinstance(value, date):
        return Fit.SAME
    try:
        return Fit.CONVERTED if isinstance(value, str) and date.fromisoformat(value) else _number(value, "int")
    except ValueError:
        return Fit.NONE


def _time(value: object, step: int, kind: str) -> Fit:
    if not isinstance(value, time):
        return _number(value, kind)
    exact = value.tzinfo is None and value.microsecond % step == 0
    return Fit.SAME if exact else Fit.ROUNDED


def _timestamp(value: object, step: int, *, local: bool) -> Fit:
    if not isinstance(value, datetime):
        return _number(value, "long")
    if local and value.tzinfo is not None:
        return Fit.CONVERTED
    exact = value.tzinfo is (None if local else UTC) and value.microsecond % step == 0
    return Fit.SAME if exact else Fit.ROUNDED


def _by_fastavro(value: object, schema: Mapping[str, Any]) -> Fit:
    try:
        fits = validate(value, dict(schema), raise_errors=False)
    except Exception:  # noqa: BLE001 - the application's own code
        return Fit.NONE
    return Fit.ROUNDED if fits else Fit.NONE
