"""What fastavro gets of a schema, so that names and logical types mean what they mean in Java.

fastavro (1.13.1) has no way to name a type of the null namespace from another one, accepts ASCII symbols only, and
parses whatever is not a record again for each value. A moment that Python cannot represent is an error, and a datetime
without a zone gets that of the machine. It is given other names, and logical types of our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from fastavro import schemaless_reader, schemaless_writer
from fastavro.logical_readers import LOGICAL_READERS
from fastavro.logical_writers import LOGICAL_WRITERS
from fastavro.schema import parse_schema

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})

LOGICAL: Final = "redelivery-logical"
"""The attribute with the original type and logical type, such as ``long-timestamp-millis``."""

_VALUE: Final = "redelivery-value"
"""The logical type, for fastavro, of values that may be the number or text itself."""

_VALUES: Final = frozenset(
    {
        *("int-date", "int-time-millis", "long-time-micros", "string-uuid"),
        *(f"long-{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros")),
    }
)
_WITH_ZONE: Final = frozenset({"long-timestamp-millis", "long-timestamp-micros"})
_SYMBOL: Final = "redelivery_symbol_"


@dataclass(frozen=True, eq=False, slots=True)
class Parsed:
    """A schema as fastavro gets it, so that it does not parse it again for each value."""

    type: Any
    """The schema itself: a dict, a list or a str."""

    named: dict[str, Any]
    """The named types, by full name."""

    field: Any
    """The schema as the type of the only field, ``""``, of a record."""

    record: Any
    """The schema itself if it is a record, which needs no other one around it; else None."""

    def read(self, stream: BytesIO, reader: Parsed | None = None, *, names: bool = False) -> Any:  # noqa: ANN401 - any value
        """Return the next value, resolved into the reader schema if there is one.

        Args:
            stream: bytes of the shape of this schema.
            reader: the reader schema.
            names: return each record of a union as a tuple of its name and its value.
        """
        if reader is None and self.record is not None:
            return schemaless_reader(stream, self.record, None, return_record_name=names)
        # One of the two may be a record and the other one not, such as a union of records.
        own = None if reader is None else reader.field
        record: Any = schemaless_reader(stream, self.field, own, return_record_name=names)
        return record[""]

    def write(self, value: Any, stream: BytesIO) -> None:  # noqa: ANN401 - any value
        """Write a value, which may be without fields that have a default."""
        if self.record is not None:
            schemaless_writer(stream, self.record, value, strict_allow_default=True)
        else:
            schemaless_writer(stream, self.field, {"": value}, strict_allow_default=True)


def parsed(schema: Any) -> Parsed:  # noqa: ANN401 - a schema is a dict, a list or a str
    """Parse, and modify, a schema with full names and without the attribute ``namespace``."""
    whole = {"type": "record", "name": "", "fields": [{"name": "", "type": _renamed(schema, _with_dot, _in_ascii)}]}
    found: Any = parse_schema(whole)
    (field,) = found["fields"]
    field["type"] = own = _renamed(field["type"], lambda name: name.removeprefix("."), _original)
    named = {name.removeprefix("."): each for name, each in found["__named_schemas"].items()}
    found["__named_schemas"] = named
    is_record = isinstance(own, dict) and own["type"] in {"record", "error"}
    record = {**own, "__fastavro_parsed": True, "__named_schemas": named} if is_record else None
    return Parsed(own, named, found, record)


def logical_of(schema: Mapping[str, Any]) -> str:
    """Return type and logical type, such as ``long-timestamp-millis``; the type alone if it has no logical type."""
    kind, logical = schema["type"], schema.get("logicalType")
    return str(schema.get(LOGICAL) or (f"{kind}-{logical}" if logical else kind))


def with_logical_type(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a type with the logical type that it gets for fastavro: none if it is invalid.

    Source: the section on logical types of the Avro specification; Java's ``LogicalTypes.fromSchemaIgnoreInvalid``.
    """
    logical = logical_of(schema)
    if logical in _VALUES:
        return {**schema, "logicalType": _VALUE, LOGICAL: logical}
    is_text = isinstance(schema.get("logicalType"), str)
    if is_text and (schema["logicalType"] != "decimal" or _is_decimal(schema)):
        return {**schema}
    return {name: each for name, each in schema.items() if name != "logicalType"}


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision < 1 << 31:
        return False
    if schema["type"] == "fixed":
        return 0 < precision <= int(math.log10(2) * (8 * schema["size"] - 1))
    return schema["type"] == "bytes" and precision > 0


def _renamed(schema: Any, name: Callable[[str], str], symbol: Callable[[str], str]) -> Any:  # noqa: ANN401 - as parsed
    """Return a schema with other names and symbols; records, enums and the like are modified."""
    if isinstance(schema, list):
        return [_renamed(each, name, symbol) for each in schema]
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else name(schema)
    kind = schema["type"]
    if kind in NAMED:
        schema["name"] = name(schema["name"])
    match kind:
        case "array":
            schema["items"] = _renamed(schema["items"], name, symbol)
        case "map":
            schema["values"] = _renamed(schema["values"], name, symbol)
        case "enum":
            schema["symbols"] = [symbol(each) for each in schema["symbols"]]
            if "default" in schema:
                schema["default"] = symbol(schema["default"])
        case "record" | "error":
            for field in schema.get("fields", ()):
                field["type"] = _renamed(field["type"], name, symbol)
    return schema


def _with_dot(name: str) -> str:
    """Return a name that fastavro does not complete."""
    return name if "." in name else f".{name}"


def _in_ascii(symbol: str) -> str:
    return symbol if symbol.isascii() or not symbol.isidentifier() else _SYMBOL + symbol.encode().hex()


def _original(symbol: str) -> str:
    return bytes.fromhex(symbol.removeprefix(_SYMBOL)).decode() if symbol.startswith(_SYMBOL) else symbol


def _read(data: Any, schema: Any = None, reader: Any = None) -> Any:  # noqa: ANN401 - a number or text
    """Return the value; what is written if Python has none for it."""
    logical = schema[LOGICAL]
    if "-time-" in logical and data < 0:  # fastavro reads -1 ms as the time 00:00:00.999
        return data
    try:
        return LOGICAL_READERS[logical](data, schema, reader)
    except (ValueError, OverflowError):
        return data


def _write(value: Any, schema: Any) -> Any:  # noqa: ANN401 - any value
    logical = schema[LOGICAL]
    if logical in _WITH_ZONE and isinstance(value, datetime) and value.utcoffset() is None:
        raise ValueError(f"{value!r} has no time zone; add one, such as tzinfo=UTC")
    return LOGICAL_WRITERS[logical](value, schema)


def is_uuid(text: str) -> bool:
    """Return whether a text is decoded to a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


LOGICAL_READERS.update({f"{kind}-{_VALUE}": _read for kind in ("int", "long", "string")})
LOGICAL_WRITERS.update({f"{kind}-{_VALUE}": _write for kind in ("int", "long", "string")})
