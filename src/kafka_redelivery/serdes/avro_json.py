"""Avro values as JSON that a person can edit: without loss, each type in one form, and errors with their place.

=======================  ==========================================================================
Avro                     JSON
=======================  ==========================================================================
null, boolean, string    the same
int, long                a number without fraction
float, double            a number; ``"NaN"``, ``"Infinity"``, ``"-Infinity"``
bytes, fixed             a string with one character per byte, U+0000 to U+00FF
enum                     its symbol
array, map, record       an array; an object; an object with all fields
union of null and a type ``null``, or the value of the type
other union              ``null``, or an object with one field: the branch's name, and its value
decimal                  a string such as ``"12.30"``
date, time-*             ``"2026-11-23"``, ``"02:00:00.000"``
timestamp-*              ``"2026-11-23T02:00:00.000Z"``; local ones without ``Z``
=======================  ==========================================================================

A date or time may also be its number; one that no text represents exactly is. A decimal whose bytes are not the
shortest is ``{"bytes": ...}``.

Source: the section on the JSON encoding of the Avro specification, for unions and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, Protocol

from kafka_redelivery.serdes.avro_logical import NUMBERS, Decimals, Numbers

_NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_BITS: Final = {"int": 32, "long": 64}
_ESCAPED = "bytes"
"""The field of a decimal that is given as bytes."""


class FormError(ValueError):
    """JSON is not a value of the schema; the text begins with the place, such as ``$.lines[2].amount``."""


class Source:
    """Bytes that are read from their start on. Their shape has been checked."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        """Return the next ``int`` or ``long``."""
        zigzag = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            zigzag |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (zigzag >> 1) ^ -(zigzag & 1)

    def blocks(self) -> int:
        """Return the number of items of the next block, 0 at the end."""
        count = self.number()
        if count < 0:
            self.number()  # the size of the block
        return abs(count)


def _number(value: int) -> bytes:
    zigzag, found = (value << 1) ^ (value >> 63), bytearray()
    while zigzag > 0x7F:  # noqa: PLR2004 - seven bits in each byte
        found.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    found.append(zigzag)
    return bytes(found)


class Form(Protocol):
    """How values of one schema are read from bytes, and written."""

    def read(self, source: Source) -> Any:  # noqa: ANN401 - any JSON
        """Return the next value as JSON. Text may raise ``UnicodeDecodeError``."""
        ...

    def write(self, value: Any, target: bytearray, at: str) -> None:  # noqa: ANN401 - any JSON
        """Append a value; ``at`` is its place.

        Raises:
            FormError: it is none of the schema.
        """
        ...


class _Null:
    def read(self, _source: Source) -> None:
        return None

    def write(self, value: object, _target: bytearray, at: str) -> None:
        if value is not None:
            raise FormError(f"{at}: needs null")


class _Boolean:
    def read(self, source: Source) -> bool:
        return source.take(1) == b"\x01"

    def write(self, value: object, target: bytearray, at: str) -> None:
        if not isinstance(value, bool):
            raise FormError(f"{at}: needs true or false")
        target.append(value)


class _Integer:
    def __init__(self, kind: str, logical: Numbers | None) -> None:
        self._kind, self._limit, self._logical = kind, 1 << _BITS[kind] - 1, logical

    def read(self, source: Source) -> int | str:
        number = source.number()
        if self._logical is not None:
            try:
                return self._logical.text(number)
            except (ValueError, OverflowError):
                pass
        return number

    def write(self, value: object, target: bytearray, at: str) -> None:
        if self._logical is not None and isinstance(value, str):
            try:
                value = self._logical.number(value)
            except (ValueError, OverflowError) as error:
                raise FormError(f"{at}: {value!r} {error}") from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise FormError(f"{at}: needs {'text or ' if self._logical else ''}a number without fraction")
        if not -self._limit <= value < self._limit:
            raise FormError(f"{at}: {value} does not fit into an Avro {self._kind}")
        target += _number(value)


class _Floating:
    def __init__(self, kind: str) -> None:
        self._kind, self._format = kind, "<f" if kind == "float" else "<d"

    def read(self, source: Source) -> float | str:
        (number,) = struct.unpack(self._format, source.take(struct.calcsize(self._format)))
        if number - number == 0:
            return float(number)
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124 - NaN

    def write(self, value: object, target: bytearray, at: str) -> None:
        if isinstance(value, str) and value in _NOT_FINITE:
            value = _NOT_FINITE[value]
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise FormError(f"{at}: needs a number")
        try:
            target += struct.pack(self._format, float(value))
        except OverflowError:
            raise FormError(f"{at}: {value} does not fit into an Avro {self._kind}") from None


class _String:
    def read(self, source: Source) -> str:
        return source.take(source.number()).decode()

    def write(self, value: object, target: bytearray, at: str) -> None:
        if not isinstance(value, str):
            raise FormError(f"{at}: needs text")
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise FormError(f"{at}: {error}") from None
        target += _number(len(data)) + data


class _Bytes:
    """``bytes``, or a ``fixed`` with its size; with ``decimals`` a decimal."""

    def __init__(self, size: int | None, decimals: Decimals | None) -> None:
        self._size, self._decimals = size, decimals

    def read(self, source: Source) -> str | dict[str, str]:
        data = source.take(source.number() if self._size is None else self._size)
        if self._decimals is None:
            return data.decode("latin-1")
        text = self._decimals.text(data)
        return text if self._decimals.data(text) == data else {_ESCAPED: data.decode("latin-1")}

    def write(self, value: object, target: bytearray, at: str) -> None:
        data = self._data(value, at)
        if self._size is None:
            target += _number(len(data))
        elif len(data) != self._size:
            raise FormError(f"{at}: has {len(data)} bytes instead of {self._size}")
        target += data

    def _data(self, value: object, at: str) -> bytes:
        if self._decimals is not None:
            if isinstance(value, str):
                try:
                    return self._decimals.data(value)
                except ValueError as error:
                    raise FormError(f"{at}: {value!r} {error}") from None
            if not isinstance(value, dict) or value.keys() != {_ESCAPED}:
                raise FormError(f"{at}: needs a decimal number as text")
            value, at = value[_ESCAPED], f"{at}.{_ESCAPED}"
        if not isinstance(value, str):
            raise FormError(f"{at}: needs text with one character per byte")
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError as error:
            raise FormError(f"{at}: {value[error.start]!r} is not a byte") from None


class _Enum:
    def __init__(self, symbols: list[str]) -> None:
        self._symbols = symbols

    def read(self, source: Source) -> str:
        return self._symbols[source.number()]

    def write(self, value: object, target: bytearray, at: str) -> None:
        if value not in self._symbols:
            raise FormError(f"{at}: {value!r} is none of {', '.join(self._symbols)}")
        target += _number(self._symbols.index(str(value)))


class _Array:
    def __init__(self, item: Form) -> None:
        self._item = item

    def read(self, source: Source) -> list[Any]:
        found = []
        while count := source.blocks():
            found += [self._item.read(source) for _ in range(count)]
        return found

    def write(self, value: object, target: bytearray, at: str) -> None:
        if not isinstance(value, list):
            raise FormError(f"{at}: needs an array")
        if value:
            target += _number(len(value))
        for index, item in enumerate(value):
            self._item.write(item, target, f"{at}[{index}]")
        target.append(0)


class _Map:
    def __init__(self, item: Form) -> None:
        self._key, self._item = _String(), item

    def read(self, source: Source) -> dict[str, Any]:
        found = {}
        while count := source.blocks():
            for _ in range(count):
                key = self._key.read(source)
                found[key] = self._item.read(source)
        return found

    def write(self, value: object, target: bytearray, at: str) -> None:
        if not isinstance(value, dict):
            raise FormError(f"{at}: needs an object")
        if value:
            target += _number(len(value))
        for key, item in value.items():
            self._key.write(key, target, f"{at}.{key}")
            self._item.write(item, target, f"{at}.{key}")
        target.append(0)


class _Record:
    def __init__(self) -> None:
        self.fields: dict[str, Form] = {}

    def read(self, source: Source) -> dict[str, Any]:
        return {name: form.read(source) for name, form in self.fields.items()}

    def write(self, value: object, target: bytearray, at: str) -> None:
        if not isinstance(value, dict):
            raise FormError(f"{at}: needs an object")
        for name in value:
            if name not in self.fields:
                raise FormError(f"{at}.{name}: the schema has no such field; it has {', '.join(self.fields)}")
        for name, form in self.fields.items():
            if name not in value:
                raise FormError(f"{at}.{name}: is missing")
            form.write(value[name], target, f"{at}.{name}")


class _Optional:
    """A union of null and one other type, whose value cannot be null."""

    def __init__(self, form: Form, null: int) -> None:
        self._form, self._null = form, null

    def read(self, source: Source) -> object:
        return None if source.number() == self._null else self._form.read(source)

    def write(self, value: object, target: bytearray, at: str) -> None:
        target += _number(self._null if value is None else 1 - self._null)
        if value is not None:
            self._form.write(value, target, at)


class _Union:
    def __init__(self, branches: list[tuple[str, Form]]) -> None:
        self._branches = branches

    def read(self, source: Source) -> object:
        name, form = self._branches[source.number()]
        value = form.read(source)
        return None if name == "null" else {name: value}

    def write(self, value: object, target: bytearray, at: str) -> None:
        names = [name for name, _ in self._branches]
        name, inner = "null", value
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
        if name not in names or (name == "null" and value is not None):
            raise FormError(f"{at}: needs {' or '.join(_example(each) for each in names)}")
        target += _number(names.index(name))
        self._branches[names.index(name)][1].write(inner, target, at if name == "null" else f"{at}.{name}")


def _example(branch: str) -> str:
    return "null" if branch == "null" else f'{{"{branch}": ...}}'


def form_of(parsed: Any) -> Form:  # noqa: ANN401 - a schema is a dict, a list or a str
    """Return the form of a schema, which :func:`fastavro.parse_schema` has parsed."""
    return _Forms().of(parsed)


class _Forms:
    def __init__(self) -> None:
        self._named: dict[str, Form] = {}

    def of(self, schema: Any) -> Form:  # noqa: ANN401 - as form_of
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._named.get(schema) or _primitive(schema, {})
        match schema["type"]:
            case "array":
                return _Array(self.of(schema["items"]))
            case "map":
                return _Map(self.of(schema["values"]))
            case "record" | "error":
                record = self._named[schema["name"]] = _Record()  # before its fields, which may name it
                record.fields |= {field["name"]: self.of(field["type"]) for field in schema["fields"]}
                return record
            case "enum":
                return self._named.setdefault(schema["name"], _Enum(schema["symbols"]))
            case "fixed":
                return self._named.setdefault(schema["name"], _Bytes(schema["size"], _decimals(schema)))
            case kind:
                return _primitive(kind, schema)

    def _union(self, branches: list[Any]) -> Form:
        named = [(_name(branch), self.of(branch)) for branch in branches]
        names = [name for name, _ in named]
        if len(named) == 2 and names.count("null") == 1:  # noqa: PLR2004 - null and another one
            null = names.index("null")
            return _Optional(named[1 - null][1], null)
        return _Union(named)


def _name(schema: Any) -> str:  # noqa: ANN401 - as form_of
    if isinstance(schema, str):
        return schema
    return str(schema["name"] if "name" in schema else schema["type"])


def _decimals(schema: Mapping[str, Any]) -> Decimals | None:
    return Decimals.of(dict(schema)) if schema.get("logicalType") == "decimal" else None


def _primitive(kind: str, schema: Mapping[str, Any]) -> Form:
    match kind:
        case "null":
            return _Null()
        case "boolean":
            return _Boolean()
        case "int" | "long":
            return _Integer(kind, NUMBERS.get(f"{kind}-{schema.get('logicalType')}"))
        case "float" | "double":
            return _Floating(kind)
        case "bytes":
            return _Bytes(None, _decimals(schema))
        case _:
            return _String()
