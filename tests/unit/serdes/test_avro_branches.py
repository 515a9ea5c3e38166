"""A decoded Avro value that is encoded again becomes the same value, or is refused with the place and the branches."""

from __future__ import annotations

import copy
import pickle
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import fastavro.write
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_branches import AvroRecord
from kafka_redelivery.serdes.avro_schema import JsonSchema
from kafka_redelivery.serdes.errors import EncodeCode, EncodeError
from tests.unit.serdes.test_avro import codec, framed, record
from tests.unit.serdes.test_avro_hostile import varint
from tests.unit.serdes.test_editing import DECIMAL, FIXED_DECIMAL, logical

DATE, UUID_TEXT = logical("int", "date"), logical("string", "uuid")
TIME_MILLIS, TIME_MICROS = logical("int", "time-millis"), logical("long", "time-micros")
MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
LOCAL = logical("long", "local-timestamp-micros")
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}
INTS = {"type": "array", "items": "int"}
CREATED, DELETED = record(("id", "int"), name="Created"), record(("id", "int"), name="Deleted")
NOON = datetime(2026, 11, 28, 12, 0, 0, 123_000, tzinfo=UTC)


def text(value: str) -> bytes:
    """Return a string or bytes as Avro writes it."""
    return varint(len(value.encode())) + value.encode()


@pytest.mark.parametrize("flip", [False, True], ids=["as written", "other order"])
@pytest.mark.parametrize(
    ("union", "bodies"),
    [
        ([DATE, MILLIS], [varint(20_000), varint(1_795_867_200_123)]),
        ([DATE, MICROS], [varint(20_000), varint(1_795_867_200_123_456)]),
        ([DATE, LOCAL], [varint(20_000), varint(1_795_867_200_123_456)]),
        (["double", "long"], [struct.pack("<d", 5.0), varint(2**53 + 1)]),
        (["float", "long"], [struct.pack("<f", 0.1), varint(2**53 + 1)]),
        ([TIME_MILLIS, "long"], [varint(1), varint(1)]),
        ([DECIMAL, FIXED], [text("12"), b"abcd"]),
        ([INTS, "bytes"], [varint(2) + varint(1) + varint(2) + b"\0", text("12")]),
        ([DATE, "string"], [varint(20_000), text("2026-11-28")]),
        ([UUID_TEXT, ENUM], [text("7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb"), varint(1)]),
        ([CREATED, DELETED], [varint(7), varint(7)]),
        (["boolean", "int", "double"], [b"\1", varint(1), struct.pack("<d", 1)]),
    ],
    ids=str,
)
def test_the_branch_stays(union: list[JsonSchema], bodies: list[bytes], *, flip: bool) -> None:
    """For shapes of real schemas also the bytes are the same again, in a field, an array and a map."""
    branches = list(reversed(union)) if flip else union
    for body in bodies:
        value = varint(branches.index(union[bodies.index(body)])) + body
        both = codec(record(("v", ["null", *branches])))
        data = framed(varint(1 + branches.index(union[bodies.index(body)])) + body)
        assert both.encode(both.decode(data)) == data
        nested = codec({"type": "map", "values": {"type": "array", "items": branches}})
        data = framed(varint(1) + text("key") + varint(1) + value + b"\0\0")
        assert nested.encode(nested.decode(data)) == data


@pytest.mark.parametrize("units", [[TIME_MILLIS, TIME_MICROS], [TIME_MICROS, TIME_MILLIS]])
def test_times_keep_their_microseconds(units: list[JsonSchema]) -> None:
    """Whichever branch they were in."""
    both = codec(units)
    for value in (time(1, 2, 3, 4), time(1, 2, 3, 4000)):
        assert both.decode(both.encode(value)) == value


@pytest.mark.parametrize(
    ("union", "value", "problem"),
    [
        ([DATE, MICROS], 5, "$.v: a value of class int fits several branches of the union: int, long; name the one"),
        (["double", MILLIS], 5, "fits several branches"),
        (["double", "string"], None, "$.v: a value of class NoneType fits no branch of the union: double, string"),
        ([CREATED, DELETED], {"id": 7}, "Created, Deleted; name the one that is meant: ('Created', value)"),
        ([CREATED, DELETED], {"id": 7, "more": 1}, "fits no branch"),
        ([CREATED, {"type": "map", "values": "int"}], {"id": 7}, "Created, map"),
        (["int", "float"], 2**60 + 1, "fits no branch"),
        (["float", "string", "int"], 1e300, "fits no branch"),
        ([DECIMAL, "bytes"], Decimal("NaN"), "fits no branch"),
    ],
)
def test_refused(union: list[Any], value: object, problem: str) -> None:
    """What fits several branches, of which the value tells none, or fits none."""
    if "bytes" in union:
        union = [{**FIXED_DECIMAL}, FIXED]
    elif union[0] == "double" and union[1] == "string":
        union = ["double", "string", FIXED, "bytes"]
        problem = problem.replace("double, string", "double, string, F, bytes")
    with pytest.raises(EncodeError) as refused:
        codec(record(("v", union))).encode({"v": value})
    assert (refused.value.code, problem in refused.value.reason) == (EncodeCode.AVRO_MISMATCH, True), refused.value


ANOTHER_ZONE = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("union", "value", "expected"),
    [
        (["float", "double"], 5, 5.0),
        (["float", "double"], 0.1, 0.1),
        (["float", "long"], 0.1, 0.10000000149011612),
        (["int", "long"], 2**40, 2**40),
        (["double", "int"], True, EncodeError),
        ([DATE, "string"], datetime(2026, 11, 28, 1, tzinfo=UTC), date(2026, 11, 28)),
        ([DATE, MILLIS], NOON.replace(microsecond=1999), NOON.replace(microsecond=1000)),
        ([DATE, MILLIS], NOON.astimezone(ANOTHER_ZONE), NOON),
        ([DATE, LOCAL], NOON, EncodeError),
        ([DATE, LOCAL], NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
        ([DATE, TIME_MICROS], "2026-11-28", date(2026, 11, 28)),
        ([DATE, ENUM], "no date", EncodeError),
        ([TIME_MILLIS, "long"], time(1, tzinfo=UTC), time(1)),
        ([UUID_TEXT, ENUM], "7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb", UUID("7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb")),
        ([UUID_TEXT, ENUM], "neither", EncodeError),
        ([DECIMAL, FIXED], b"ab", Decimal("249.30")),
        ([DECIMAL, FIXED], Decimal("1.5"), Decimal("1.50")),
        ([DECIMAL, FIXED], Decimal("-0.00"), Decimal("0.00")),
        ([DECIMAL, FIXED], Decimal("1E7"), EncodeError),
        ([DECIMAL, FIXED], Decimal("1.555"), EncodeError),
        ([FIXED_DECIMAL, FIXED], Decimal("-9999999.99"), Decimal("-9999999.99")),
        (["bytes", FIXED], bytearray(b"abcd"), b"abcd"),
        ([INTS, "bytes"], (), []),
        ([INTS, FIXED], b"12", [49, 50]),
        ([INTS, "bytes"], "text", EncodeError),
        ([{"type": "map", "values": "int"}, CREATED], {"other": 1}, {"other": 1}),
        ([{"type": "map", "values": "int"}, CREATED], {1: 1}, EncodeError),
        ([{"type": "map", "values": "int"}, CREATED], MappingProxyType({"other": 1}), {"other": 1}),
        ([CREATED, DELETED], ("Deleted", {"id": 7}), {"id": 7}),
        ([CREATED, DELETED], AvroRecord("Other", {"id": 7}), EncodeError),
        ([CREATED, record(("id", "int"), ("why", "string", ""), name="Deleted")], {"id": 7}, {"id": 7}),
        ([CREATED, record(("id", "string"), name="Deleted")], MappingProxyType({"id": "7"}), {"id": "7"}),
        ([record(("id", "int"), ("why", "string", "?"), name="X"), record(("at", "int"), name="Y")], {"id": 7}, {"id": 7, "why": "?"}),
        ([INTS, "bytes"], [1, 2], [1, 2]),
    ],
    ids=str,
)
def test_values_that_are_not_decoded_ones(union: list[Any], value: object, expected: object) -> None:
    """They take the branch of their class, else the only one that accepts them."""
    both = codec(record(("v", union)))
    if expected is EncodeError:
        with pytest.raises(EncodeError):
            both.encode({"v": value})
    else:
        found = both.decode(both.encode({"v": value}))
        assert same(found["v"], expected), found


def test_named_values_may_be_nested() -> None:
    """Within a named branch branches are chosen, or named, too; also where fastavro's validation knows no names."""
    inner = record(("v", [DATE, "string"]), ("w", [CREATED, DELETED]), name="Inner")
    both = codec(record(("u", [inner, record(("v", "int"), name="Outer")])))
    value = {"u": ("Inner", {"v": "2026-11-28", "w": ("Deleted", {"id": 1})})}
    found = both.decode(both.encode(value))
    assert found == {"u": {"v": "2026-11-28", "w": {"id": 1}}}
    assert found["u"]["w"].name == "Deleted"
    assert both.encode(found) == both.encode(value)


def test_a_record_that_knows_its_name() -> None:
    """It is an ordinary dict for the handler, which copies, pickles and changes like one."""
    both = codec([CREATED, DELETED])
    data = framed(varint(1) + varint(7))
    found = both.decode(data)
    assert (found, found.name) == ({"id": 7}, "Deleted")
    for each in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301 - ours
        assert (both.encode(each), type(each)) == (data, AvroRecord)
    found["id"] = 8
    assert both.decode(both.encode(found)) == {"id": 8}
    assert both.decode(both.encode(found)).name == "Deleted"


def test_other_records_are_plain_dicts() -> None:
    """Where the fields tell the branch."""
    both = codec([CREATED, record(("at", "int"), name="Deleted")])
    assert type(both.decode(framed(varint(1) + varint(7)))) is dict


def test_records_of_a_union_with_many_ways_take_no_time() -> None:
    """The fit of each record is looked up once, not for each way that leads to it."""
    both = codec(
        record(
            ("first", ["null", {**CREATED, "fields": [{"name": "next", "type": ["null", "Created", "Deleted"]}]}]),
            ("second", ["null", {**DELETED, "fields": [{"name": "next", "type": ["null", "Created", "Deleted"]}]}]),
        )
        if False
        else [
            record(("next", ["null", "Created", record(("next", ["null", "Created", "Deleted"]), name="Deleted")]), name="Created"),
            "Deleted",
        ]
    )
    value: Any = None
    for _ in range(60):
        value = {"next": value}
    with pytest.raises(EncodeError, match="several branches"):
        both.encode(value)
    value = None
    for at in range(60):
        value = "Created" if at % 2 else "Deleted", {"next": value}
    assert both.encode(both.decode(both.encode(value))) == both.encode(value)


def test_a_logical_type_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own function says what fits."""
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-reversed", lambda value, _: value[::-1])
    both = codec([logical("string", "reversed"), "long"])
    assert both.decode(both.encode("abc")) == "cba"
    assert both.decode(both.encode(5)) == 5
    with pytest.raises(EncodeError, match="no branch"):
        both.encode(None if False else 2.5)


def test_an_unknown_logical_type_is_that_of_its_numbers() -> None:
    """As the specification wants it."""
    both = codec([logical("int", "weeks"), "double"])
    assert same(both.decode(both.encode(5)), 5)


@pytest.mark.parametrize("schema", [["null", "string"], ["string", "int"], ["null", INTS, "string", CREATED], FIXED])
def test_a_schema_without_choices_costs_nothing(schema: JsonSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are passed on as they are."""
    seen: list[object] = []
    write = fastavro.schemaless_writer
    monkeypatch.setattr(
        "kafka_redelivery.serdes.avro.schemaless_writer", lambda *given, **options: (seen.append(given[2]), write(*given, **options))
    )
    value = b"abcd" if schema is FIXED else "abcd"
    codec(schema).encode(value)
    assert seen[0] is value


# Any schema.

_FIELDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True).map(sorted)
_PLAIN = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
_LOGICAL = [
    *(DATE, TIME_MILLIS, TIME_MICROS, MILLIS, MICROS, LOCAL, logical("long", "local-timestamp-millis")),
    *(UUID_TEXT, DECIMAL, logical("bytes", "decimal", precision=4), logical("int", "unknown")),
]
_DAYS = st.integers(date.min.toordinal() - 719_163, date.max.toordinal() - 719_163)
_MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_NUMBERS = {
    "int-date": _DAYS,
    "int-time-millis": st.integers(0, 86_399_999),
    "long-time-micros": st.integers(0, 86_399_999_999),
    "long-timestamp-millis": _MICROS.map(lambda number: number // 1000),
    "long-local-timestamp-millis": _MICROS.map(lambda number: number // 1000),
    "long-timestamp-micros": _MICROS,
    "long-local-timestamp-micros": _MICROS,
}
_INT, _LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(max_size=4) | st.sampled_from(["A", "B", "2026-11-28", "7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb"])


class Schemas:
    """Draws a schema, and bytes of it."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._defined: dict[str, dict[str, Any]] = {}

    def schema(self, depth: int, *, in_union: bool = False) -> Any:
        kinds = ["plain", "logical", "enum", "fixed", "fixed decimal", "named"]
        kinds += ["array", "map", "record", "record"] if depth else []
        kinds += ["union"] * 6 if depth and not in_union else []
        match self._draw(st.sampled_from(kinds)):
            case "plain":
                return self._draw(st.sampled_from(_PLAIN))
            case "logical":
                return self._draw(st.sampled_from(_LOGICAL))
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
                return self._named("D", {"type": "fixed", "logicalType": "decimal", "precision": 9, "scale": 2, "size": 4})
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
            branch = self.schema(depth - 1, in_union=True)
            kind = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            if kind in found:
                self._defined = before
            else:
                found[kind] = branch
        return list(found.values())

    def body(self, schema: Any, depth: int = 6) -> bytes:
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
                return text(str(draw(st.uuids())) if "uuid" in logical_type else draw(_TEXTS))
            case "enum":
                return varint(draw(st.integers(0, len(found["symbols"]) - 1)))
            case "fixed":
                return draw(st.binary(min_size=found["size"], max_size=found["size"]))
            case "record":
                return b"".join(self.body(each["type"], depth - 1) for each in found["fields"])
        count = draw(st.integers(0, 2)) if depth > 0 else 0
        items = b""
        for at in range(count):
            items += (text(f"abc"[at]) if kind == "map" else b"") + self.body(found["items" if kind == "array" else "values"], depth - 1)
        return (varint(count) + items if count else b"") + b"\0"


@st.composite
def encoded(draw: Any) -> tuple[JsonSchema, bytes]:
    """A schema, and bytes of one of its values."""
    schemas = Schemas(draw)
    schema = schemas.schema(3)
    return schema, schemas.body(schema)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and have the same classes; NaN is equal to itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[each], other[each]) for each in one)
    if type(one) is not type(other):
        return False
    match one:
        case list():
            return len(one) == len(other) and all(map(same, one, other))
        case float():
            return struct.pack("<d", one) == struct.pack("<d", other)
        case Decimal():
            return one.as_tuple() == other.as_tuple()
        case datetime():
            return one == other and one.tzinfo == other.tzinfo
    return bool(one == other)


@given(encoded())
def test_any_decoded_value_becomes_the_same_value_again(case: tuple[JsonSchema, bytes]) -> None:
    """Of any schema. Only a dict that may be a map or a record is refused."""
    schema, body = case
    both: AvroCodec = codec(schema)
    value = both.decode(framed(body))
    try:
        again = both.encode(value)
    except EncodeError as error:
        event("refused")
        assert "several branches of the union" in error.reason
        assert "map" in error.reason
        return
    event("written")
    assert same(both.decode(again), value), (value, both.decode(again))
