"""Any Avro schema, and bytes of any of its values."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from kafka_redelivery.serdes.avro_schema import JsonSchema
from tests.unit.serdes.test_avro_hostile import varint
from tests.unit.serdes.test_editing import DECIMAL, logical

DATE, UUID_TEXT = logical("int", "date"), logical("string", "uuid")
TIME_MILLIS, TIME_MICROS = logical("int", "time-millis"), logical("long", "time-micros")
MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
LOCAL = logical("long", "local-timestamp-micros")

_FIELDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True).map(sorted)
_PLAIN = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
_LOGICAL = [
    *(DATE, TIME_MILLIS, TIME_MICROS, MILLIS, MICROS, LOCAL, logical("long", "local-timestamp-millis")),
    *(UUID_TEXT, DECIMAL, logical("bytes", "decimal", precision=4), logical("int", "unknown")),
]
_INT, _LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_DAYS = st.integers(date.min.toordinal() - 719_163, date.max.toordinal() - 719_163) | _INT
_MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_NUMBERS = {
    "int-date": _DAYS,
    "int-time-millis": st.integers(0, 86_399_999) | _INT,
    "long-time-micros": st.integers(0, 86_399_999_999) | _LONG,
    "long-timestamp-millis": _MICROS.map(lambda number: number // 1000) | _LONG,
    "long-local-timestamp-millis": _MICROS.map(lambda number: number // 1000) | _LONG,
    "long-timestamp-micros": _MICROS | _LONG,
    "long-local-timestamp-micros": _MICROS | _LONG,
}
_TEXTS = st.text(max_size=4) | st.sampled_from(["A", "B", "2026-11-28", "7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb"])


def text(value: str) -> bytes:
    """Return a string or bytes as Avro writes it."""
    return varint(len(value.encode())) + value.encode()


class Schemas:
    """Draws a schema, and bytes of it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._defined: dict[str, dict[str, Any]] = {}

    def schema(self, depth: int, *, in_union: bool = False) -> JsonSchema:
        """Return a schema of at most this depth."""
        kinds = ["plain", "logical", "enum", "fixed", "fixed decimal", "named"]
        kinds += ["array", "map", "record", "record"] if depth else []
        kinds += ["union"] * 6 if depth and not in_union else []
        match self._draw(st.sampled_from(kinds)):
            case "plain":
                return self._draw(st.sampled_from(_PLAIN))
            case "logical":
                return dict(self._draw(st.sampled_from(_LOGICAL)))
            case "named" if complete := [name for name, each in self._defined.items() if each.get("fields") != []]:
                return self._draw(st.sampled_from(complete))
            case "array":
                return {"type": "array", "items": self.schema(depth - 1)}
            case "map":
                return {"type": "map", "values": self.schema(depth - 1)}
            case "record":
                return self._record(depth)
            case "union":
                return self._union(depth)
            case "fixed decimal":
                return self._named("D", logical("fixed", "decimal", precision=9, scale=2, size=4))
            case "fixed":
                return self._named("F", {"type": "fixed", "size": self._draw(st.sampled_from([0, 1, 4]))})
        symbols = self._draw(st.sampled_from([["A"], ["A", "B"], ["B", "C"]]))
        return self._named("E", {"type": "enum", "symbols": symbols})

    def _named(self, prefix: str, schema: dict[str, Any]) -> dict[str, Any]:
        schema["name"] = f"{prefix}{len(self._defined)}"
        self._defined[schema["name"]] = schema
        return schema

    def _record(self, depth: int) -> dict[str, Any]:
        found = self._named("R", {"type": "record", "fields": []})
        fields = [{"name": each, "type": self.schema(depth - 1)} for each in self._draw(_FIELDS)]
        if self._draw(st.booleans()):
            fields.append({"name": "next", "type": ["null", found["name"]]})
        found["fields"] = fields
        return found

    def _union(self, depth: int) -> list[Any]:
        found: dict[str, Any] = {}
        for _ in range(self._draw(st.integers(1, 5))):
            before = dict(self._defined)
            branch: Any = self.schema(depth - 1, in_union=True)
            kind = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            if kind in found:
                self._defined = before
            else:
                found[kind] = branch
        return list(found.values())

    def body(self, schema: JsonSchema, depth: int = 6) -> bytes:  # noqa: C901, PLR0911, PLR0912 - one for each type
        """Return a value as Avro writes it; below the depth optional parts are left out."""
        draw = self._draw
        if isinstance(schema, list):
            nulls = [at for at, each in enumerate(schema) if each == "null"]
            index = nulls[0] if nulls and depth <= 0 else draw(st.integers(0, len(schema) - 1))
            return varint(index) + self.body(schema[index], depth - 1)
        if isinstance(schema, str) and schema in self._defined:
            return self.body(self._defined[schema], depth - 1)
        found: Mapping[str, Any] = {"type": schema} if isinstance(schema, str) else schema
        kind = found["type"]
        logical_type = f"{kind}-{found.get('logicalType')}"
        if logical_type in _NUMBERS:
            return varint(draw(_NUMBERS[logical_type]))
        if found.get("logicalType") == "decimal":
            limit = min(10 ** found["precision"], 1 << 8 * found.get("size", 99) - 1) - 1
            number = draw(st.integers(-limit, limit))
            if kind == "fixed":
                return number.to_bytes(found["size"], "big", signed=True)
            return varint(5) + number.to_bytes(5, "big", signed=True)
        match kind:
            case "null":
                return b""
            case "boolean":
                return draw(st.sampled_from([b"\0", b"\1"]))
            case "int" | "long":
                return varint(draw(_INT if kind == "int" else _LONG | st.just(2**53 + 1)))
            case "float":
                return struct.pack("<f", draw(st.floats(width=32)))
            case "double":
                return struct.pack("<d", draw(st.floats()))
            case "bytes":
                data = draw(st.binary(max_size=4))
                return varint(len(data)) + data
            case "string":
                return text(draw(st.uuids().map(str) | _TEXTS) if "uuid" in logical_type else draw(_TEXTS))
            case "enum":
                return varint(draw(st.integers(0, len(found["symbols"]) - 1)))
            case "fixed":
                return draw(st.binary(min_size=found["size"], max_size=found["size"]))
            case "record":
                return b"".join(self.body(each["type"], depth - 1) for each in found["fields"])
        count = draw(st.integers(0, 2)) if depth > 0 else 0
        items = b""
        for at in range(count):
            items += text("abc"[at]) if kind == "map" else b""
            items += self.body(found["items" if kind == "array" else "values"], depth - 1)
        return (varint(count) + items if count else b"") + b"\0"


@st.composite
def encoded(draw: st.DrawFn) -> tuple[JsonSchema, bytes]:
    """A schema, and bytes of one of its values."""
    schemas = Schemas(draw)
    schema = schemas.schema(3)
    return schema, schemas.body(schema)


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any decoded value
    """Whether two values are equal and have the same classes; NaN is equal to itself."""
    if type(one) is not type(other) or getattr(one, "name", None) != getattr(other, "name", None):
        return False
    match one:
        case dict():
            return one.keys() == other.keys() and all(same(one[each], other[each]) for each in one)
        case list():
            return len(one) == len(other) and all(map(same, one, other))
        case float():
            return struct.pack("<d", one) == struct.pack("<d", other)
        case Decimal():
            return bool(one.as_tuple() == other.as_tuple())
        case datetime():
            return bool(one == other and one.tzinfo == other.tzinfo)
    return bool(one == other)
