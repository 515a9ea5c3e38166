"""Chooses the branch of each Avro union, so that a decoded value becomes the same value again.

fastavro takes the first branch that accepts a value in some form: a ``datetime`` becomes a date, an ``int`` a double, a
date a text. Here the classes decide: the branch is the one that decodes to an equal value of the same class. fastavro
gets the branch in its notation for unions, a tuple of the branch's name and the value.

Records of several branches may have the same fields. Then a decoded record knows its name, see :class:`AvroRecord`.

fastavro also writes values of other classes, such as the number of a date, or an ``int`` as a double.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import IntEnum
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Final, TypeAlias
from uuid import UUID

from fastavro.validation import validate
from fastavro.write import LOGICAL_WRITERS

from kafka_redelivery.serdes.avro_shape import ShapeError
from kafka_redelivery.serdes.avro_types import LOGICAL, is_uuid, logical_of


class Fit(IntEnum):
    """How well a Python value fits an Avro type: what decoding returns if the value is written as that type."""

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
    logical = logical_of(found)
    if logical not in _TYPES:
        if logical in LOGICAL_WRITERS:  # one that the application has added
            return lambda value: _by_fastavro(value, found), EVERY_CLASS
        logical = found["type"]  # an unknown logical type is ignored
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
    if not isinstance(value, str):
        return Fit.NONE
    return Fit.CONVERTED if is_uuid(value) else Fit.ROUNDED  # an enum or a string with this text goes first


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
    return 1000 if schema[LOGICAL].endswith("millis") else 1


def _timestamp(value: object, schema: Mapping[str, Any]) -> Fit:
    if not isinstance(value, datetime):
        return _number(value, schema)
    local = "-local-" in schema[LOGICAL]
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


_Seen: TypeAlias = dict[tuple[int, int], tuple[object, Fit]]
"""How well objects fit types, by the identities of both. It keeps the objects, so that no other gets their identity."""

_CONTAINERS: Final = frozenset({"array", "map", "record", "error"})
_REALS: Final = {"float", "double"}


class AvroRecord(dict[str, Any]):
    """A decoded record of a union in which another branch has the same fields: a dict that knows its branch.

    A plain dict is refused there, because it may be any of these records. Give its name with it: ``(name, {...})``.
    """

    __slots__ = ("name",)

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        """Create the record.

        Args:
            name: the full name of its Avro type.
            fields: its values.
        """
        super().__init__(fields)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRecord, (self.name, dict(self))


class Branches:
    """The unions of one schema. Immutable and thread-safe."""

    def __init__(self, parsed: Any) -> None:  # noqa: ANN401 - a schema is a dict, a list or a str
        """Compile the schema as ``fastavro.parse_schema`` returns it."""
        compiler = _Compiler()
        self._root = compiler.of(parsed)
        compiler.settle()
        self.needed = self._root.needed
        """Whether the schema has a union in which fastavro would choose among several branches."""

        self.named = compiler.named
        """Whether records of several branches of a union can have the same fields."""

    def resolved(self, value: Any) -> Any:  # noqa: ANN401 - any value
        """Return the value with the name of the branch wherever fastavro might choose another one.

        Raises:
            ShapeError: no branch fits, or several, of which the value does not tell which is meant.
        """
        return self._root.written(value, "$", {}) if self.needed else value


def with_names(value: Any) -> Any:  # noqa: ANN401 - any decoded value
    """Return a value that fastavro decoded with the names of records, with an :class:`AvroRecord` for each."""
    if isinstance(value, tuple):
        name, inner = value
        return AvroRecord(name, with_names(inner)) if isinstance(inner, dict) else inner  # of an enum or a fixed
    if isinstance(value, dict):
        return {key: with_names(each) for key, each in value.items()}
    return [with_names(each) for each in value] if isinstance(value, list) else value


class _Type(ABC):
    """A type of the schema."""

    def __init__(self, name: str, classes: frozenset[str]) -> None:
        self.name = name
        """By which fastavro knows it as a branch."""

        self.classes = classes
        """The kinds of Python values that fastavro writes as it."""

        self.parts: list[_Type] = []
        self.needed = False
        """Whether it has a union in which a branch must be chosen."""

    @abstractmethod
    def fit(self, value: Any, seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        """Return how well a value fits."""

    def written(self, value: Any, _at: str, _seen: _Seen) -> Any:  # noqa: ANN401 - any value
        """Return a value with the names of its branches; ``_at`` is its place."""
        return value


class _Leaf(_Type):
    def __init__(self, name: str, classes: frozenset[str], check: Check) -> None:
        super().__init__(name, classes)
        self._check = check

    def fit(self, value: Any, _seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        return self._check(value)


class _Container(_Type):
    def fit(self, value: Any, seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        """Return the worst fit of its parts. Each object is looked at once, however deep unions are nested."""
        key = id(self), id(value)
        if key not in seen:
            seen[key] = value, min(self._fits(value, seen), default=Fit.SAME)
        return seen[key][1]

    @abstractmethod
    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        """Yield the fits of its parts."""


class _Array(_Container):
    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        if not isinstance(value, Sequence | array) or isinstance(value, str):
            yield Fit.NONE
            return
        if not isinstance(value, list):
            yield Fit.CONVERTED if isinstance(value, bytes | bytearray) else Fit.ROUNDED
        for each in value:
            yield self.parts[0].fit(each, seen)

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        if not self.needed or not isinstance(value, Sequence):
            return value
        return [self.parts[0].written(each, f"{at}[{index}]", seen) for index, each in enumerate(value)]


class _Map(_Container):
    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            yield Fit.NONE
            return
        if not isinstance(value, dict):
            yield Fit.ROUNDED
        for each in value.values():
            yield self.parts[0].fit(each, seen)

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        if not self.needed or not isinstance(value, Mapping):
            return value
        return {key: self.parts[0].written(each, f"{at}.{key}", seen) for key, each in value.items()}


class _Record(_Container):
    def __init__(self, name: str) -> None:
        super().__init__(name, frozenset({"dict"}))
        self.fields: dict[str, tuple[_Type, bool]] = {}
        """Of each field its type, and whether it has a default."""

    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        if not isinstance(value, Mapping) or any(name not in self.fields for name in value):
            yield Fit.NONE
            return
        if not isinstance(value, dict):
            yield Fit.ROUNDED
        for name, (field, has_default) in self.fields.items():
            if name in value:
                yield field.fit(value[name], seen)
            else:
                yield Fit.ROUNDED if has_default else Fit.NONE

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        if not self.needed or not isinstance(value, Mapping):
            return value
        chosen = {
            name: field.written(value[name], f"{at}.{name}", seen)
            for name, (field, _) in self.fields.items()
            if field.needed and name in value
        }
        return {**value, **chosen}


class _Union(_Type):
    def __init__(self, branches: list[_Type]) -> None:
        super().__init__("union", frozenset[str]().union(*(each.classes for each in branches)))
        self.parts = branches
        self._names = {each.name: each for each in branches}
        self.needed = any(one.classes & other.classes for one, other in combinations(branches, 2))

    def fit(self, value: Any, seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        named = self._named(value)
        if named is not None:
            return named[0].fit(named[1], seen)
        return max(each.fit(value, seen) for each in self.parts)

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        branch, value = self._named(value) or (self._chosen(value, at, seen), value)
        return branch.name, branch.written(value, at, seen)

    def _named(self, value: Any) -> tuple[_Type, Any] | None:  # noqa: ANN401 - any value
        """Return the branch that the value names, and the value without the name."""
        match value:
            case (str(name), inner) if isinstance(value, tuple) and name in self._names:
                return self._names[name], inner
            case AvroRecord() if value.name in self._names:
                return self._names[value.name], value
        return None

    def _chosen(self, value: Any, at: str, seen: _Seen) -> _Type:  # noqa: ANN401 - any value
        fits = [each.fit(value, seen) for each in self.parts]
        best = max(fits)
        found = [each for each, fit in zip(self.parts, fits, strict=True) if fit is best]
        names = [each.name for each in found]
        if best is Fit.NONE:
            all_names = ", ".join(self._names)
            raise ShapeError(f"{at}: a value of class {type(value).__name__} fits no branch of the union: {all_names}")
        if len(found) == 1:
            return found[0]
        if set(names) == _REALS:  # a double represents each float
            return self._names["double"]
        if best is Fit.CONVERTED or "dict" in found[0].classes:
            raise ShapeError(
                f"{at}: a value of class {type(value).__name__} fits several branches of the union: "
                f"{', '.join(names)}; name the one that is meant: ({names[0]!r}, value)"
            )
        return found[0]


class _Compiler:
    def __init__(self) -> None:
        self._types: list[_Type] = []
        self._defined: dict[str, _Type] = {}
        self.named = False

    def of(self, schema: Any) -> _Type:  # noqa: ANN401 - as Branches
        if isinstance(schema, str) and schema in self._defined:
            return self._defined[schema]
        found = self._new(schema)
        self._types.append(found)
        return found

    def _new(self, schema: Any) -> _Type:  # noqa: ANN401 - as Branches
        if isinstance(schema, list):
            return _Union([self.of(branch) for branch in schema])
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind not in _CONTAINERS:
            check, classes = fit_of(schema)
            name = schema["name"] if kind in {"enum", "fixed"} else kind
            leaf = _Leaf(name, classes, check)
            if name != kind:
                self._defined[name] = leaf
            return leaf
        if kind in {"record", "error"}:
            record = self._defined[schema["name"]] = _Record(schema["name"])  # before its fields, which may name it
            record.fields = {each["name"]: (self.of(each["type"]), "default" in each) for each in schema["fields"]}
            record.parts = [field for field, _ in record.fields.values()]
            return record
        found = _Array(kind, frozenset({"list", "bytes"})) if kind == "array" else _Map(kind, frozenset({"dict"}))
        found.parts = [self.of(schema["items" if kind == "array" else "values"])]
        return found

    def settle(self) -> None:
        """Let all types know of the unions in them. A type may be part of itself."""
        changed = True
        while changed:
            changed = False
            for each in self._types:
                if not each.needed and any(part.needed for part in each.parts):
                    each.needed = changed = True
        self.named = any(
            isinstance(one, _Record) and isinstance(other, _Record) and one.fields.keys() == other.fields.keys()
            for union in self._types
            if isinstance(union, _Union)
            for one, other in combinations(union.parts, 2)
        )
