"""What bytes can do to a worker: nothing but be refused, in time and memory that their length bounds."""

from __future__ import annotations

import inspect
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import JsonSchema, schema_of
from kafka_redelivery.serdes.avro_shape import MAX_DEPTH, MAX_EMPTY_ITEMS
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError
from kafka_redelivery.serdes.schemas import LocalSchemas

HEADER = b"\0\0\0\0\x07"


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    """A record schema from the names and types of its fields."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def array(items: JsonSchema) -> dict[str, Any]:
    """An array schema."""
    return {"type": "array", "items": items}


def varint(number: int) -> bytes:
    """A number as Avro writes it."""
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def error_of(schema: JsonSchema, body: bytes, reader: JsonSchema | None = None) -> DecodeError | None:
    """Return how a body is refused, or None if it is a value of the schema."""
    own = None if reader is None else schema_of(reader, "reader")
    return _error(AvroCodec(LocalSchemas({7: schema}), reader=own), HEADER + body)


@contextmanager
def bounded(mebibytes: int = 32, seconds: int = 30) -> Iterator[None]:
    """Fails if the block takes more memory or time."""
    tracemalloc.start()
    begin = time.monotonic()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.monotonic() - begin < seconds
    assert peak < mebibytes << 20


HUGE = 2**62
LIST = record(("next", ["null", "R"]))
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("schema", "body", "code"),
    [
        ("bytes", varint(HUGE), DecodeCode.TRUNCATED),
        ("bytes", varint(-1), DecodeCode.AVRO_MISMATCH),
        ("string", varint(-(2**63)), DecodeCode.AVRO_MISMATCH),
        (array("long"), varint(HUGE), DecodeCode.TRUNCATED),
        (array("double"), varint(HUGE) + bytes(64), DecodeCode.TRUNCATED),
        (array("null"), varint(HUGE) + b"\0", DecodeCode.TOO_MANY_ITEMS),
        (array("null"), varint(-HUGE) + b"\0\0", DecodeCode.TOO_MANY_ITEMS),
        (array("null"), varint(-(2**63)) + b"\0\0", DecodeCode.TOO_MANY_ITEMS),
        (array(record()), varint(HUGE) + b"\0", DecodeCode.TOO_MANY_ITEMS),
        (array({"type": "null"}), varint(HUGE) + b"\0", DecodeCode.TOO_MANY_ITEMS),
        (array({"type": "fixed", "name": "F", "size": 0}), varint(HUGE) + b"\0", DecodeCode.TOO_MANY_ITEMS),
        (array(record(("a", record(name="E")), ("b", "E"))), varint(HUGE) + b"\0", DecodeCode.TOO_MANY_ITEMS),
        (array(record(("a", "R"))), varint(1) + b"\0", DecodeCode.TOO_DEEP),
        (
            array(array("null")),
            varint(10) + (varint(MAX_EMPTY_ITEMS // 4) + b"\0") * 10 + b"\0",
            DecodeCode.TOO_MANY_ITEMS,
        ),
        (array(array("int")), varint(3) + varint(HUGE), DecodeCode.TRUNCATED),
        (array("int"), varint(-2) + varint(HUGE) + b"\0\0\0", DecodeCode.AVRO_MISMATCH),
        (array("int"), varint(-2) + varint(1) + b"\0\0\0", DecodeCode.AVRO_MISMATCH),
        (array("int"), varint(-2) + varint(-2) + b"\0\0\0", DecodeCode.AVRO_MISMATCH),
        (array("int"), varint(2) + b"\0", DecodeCode.TRUNCATED),
        ({"type": "map", "values": "long"}, varint(HUGE), DecodeCode.TRUNCATED),
        ({"type": "map", "values": "null"}, varint(HUGE) + b"\0" * 100, DecodeCode.TRUNCATED),
        (LIST, b"\x02" * 100_000, DecodeCode.TOO_DEEP),
        (LIST, b"\x02" * 1_000_000 + b"\0", DecodeCode.TOO_DEEP),
        (record(("next", array("R"))), b"\x02" * 1_000_000, DecodeCode.TOO_DEEP),
        (record(("next", {"type": "map", "values": "R"})), b"\x02\0" * 1_000_000, DecodeCode.TOO_DEEP),
        (record(("a", "R")), b"", DecodeCode.TOO_DEEP),
        ("int", b"\xff" * 1_000_000, DecodeCode.TRUNCATED),
        ("int", b"\xff" * 1_000_000 + b"\0", DecodeCode.AVRO_MISMATCH),
        ("int", b"\xff\xff\xff\xff\x10", DecodeCode.AVRO_MISMATCH),
        ("int", b"\x80\x80\x80\x80\x80\0", DecodeCode.AVRO_MISMATCH),
        ("long", b"\xff" * 9 + b"\x02", DecodeCode.AVRO_MISMATCH),
        ("boolean", b"\x02", DecodeCode.AVRO_MISMATCH),
        (["null", "string"], b"\x01", DecodeCode.AVRO_MISMATCH),
        (["null", "string"], b"\x04", DecodeCode.AVRO_MISMATCH),
        (["null", "string"], varint(-HUGE), DecodeCode.AVRO_MISMATCH),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01", DecodeCode.AVRO_MISMATCH),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04", DecodeCode.AVRO_MISMATCH),
        (DECIMAL, varint(1_000_000) + b"\x7f" * 1_000_000, DecodeCode.AVRO_MISMATCH),
        (DECIMAL, b"\x08" + (10**9).to_bytes(4, "big"), DecodeCode.AVRO_MISMATCH),
        (DECIMAL, b"\x08\x01", DecodeCode.TRUNCATED),
        ({**DECIMAL, "type": "fixed", "name": "F", "size": 4}, b"\x80\0\0\0", DecodeCode.AVRO_MISMATCH),
        ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\0", DecodeCode.NOT_UTF8),
    ],
    ids=lambda value: str(value)[:60],
)
def test_hostile_bytes_cost_no_more_than_their_length(schema: JsonSchema, body: bytes, code: DecodeCode) -> None:
    """Lengths, counts, depths and digits that the bytes merely claim are refused before they are believed."""
    with bounded():
        error = error_of(schema, body)
    assert error is not None
    assert error.code == code


@pytest.mark.parametrize("items", ["double", "float", "boolean", {"type": "fixed", "name": "F", "size": 1}], ids=str)
def test_a_field_the_reader_drops_is_bounded_too(items: JsonSchema) -> None:
    """Skipping past the end of the bytes would never end: a count is no more believed there."""
    with bounded():
        error = error_of(record(("a", array(items))), varint(HUGE), reader=record())
    assert error is not None
    assert error.code == DecodeCode.TRUNCATED


@pytest.mark.parametrize(
    ("schema", "body", "value"),
    [
        (LIST, b"\x02" * MAX_DEPTH + b"\0", None),
        (array("null"), varint(MAX_EMPTY_ITEMS) + b"\0", [None] * MAX_EMPTY_ITEMS),
        (array("int"), varint(-2) + varint(2) + b"\x02\x04" + b"\x02\x06" + b"\0", [1, 2, 3]),
        (DECIMAL, varint(1000) + bytes(1000), 0),
        (["null", "int"], b"\x82\0\x02", 1),
        ("long", b"\xfe" + b"\xff" * 8 + b"\x01", 2**63 - 1),
        ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
    ],
    ids=["depth", "empty items", "blocks", "padded decimal", "padded branch", "largest long", "smallest int"],
)
def test_the_limits_themselves_are_allowed(schema: JsonSchema, body: bytes, value: object) -> None:
    """What is unusual but right is read: only what lies past a limit is refused."""
    decoded = AvroCodec(LocalSchemas({7: schema})).decode(HEADER + body)
    if value is not None:
        assert decoded == value
    assert error_of(schema, body) is None


def test_a_stack_already_deep_is_not_overrun() -> None:
    """A value that would fit on an empty stack is refused when little of the stack is left, instead of ending it."""
    codec = AvroCodec(LocalSchemas({7: LIST}))
    data = HEADER + b"\x02" * MAX_DEPTH + b"\0"
    assert codec.decode(data) is not None

    def after(levels: int) -> None:
        codec.decode(data) if levels == 0 else after(levels - 1)

    with pytest.raises(DecodeError) as caught:
        after(sys.getrecursionlimit() - len(inspect.stack()) - 100)
    assert caught.value.code == DecodeCode.TOO_DEEP


SCALARS: list[tuple[JsonSchema, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=5)),
    ("bytes", st.binary(max_size=5)),
    (DECIMAL, st.decimals(-9_999_999, 9_999_999, places=2)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.datetimes(timezones=st.just(UTC))),
]


@st.composite
def cases(draw: st.DrawFn, name: str = "N", depth: int = 3) -> tuple[JsonSchema, Any]:
    """A schema and a value of it; names grow on the way in, so that each is given once."""
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "map", "optional", "record", "enum", "fixed", "tree"]))
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["X", "Y", "Z"]}, draw(st.sampled_from("XYZ"))
    if kind == "fixed":
        value = draw(st.binary(max_size=4))
        return {"type": "fixed", "name": name, "size": len(value)}, value
    if kind == "tree":
        node = record(("v", "int"), ("sub", array(name)), name=name)
        return node, {"v": 1, "sub": [{"v": 2, "sub": []}] * draw(st.integers(0, 3))}
    if kind == "scalar" or depth == 0:
        schema, values = draw(st.sampled_from(SCALARS))
        return schema, draw(values)
    if kind == "record":
        fields = [draw(cases(f"{name}{number}", depth - 1)) for number in range(draw(st.integers(0, 4)))]
        named = [(f"f{number}", field) for number, field in enumerate(fields)]
        return record(*((key, one) for key, (one, _) in named), name=name), {key: value for key, (_, value) in named}
    inner, value = draw(cases(f"{name}0", depth - 1))
    if kind == "array":
        return array(inner), [value] * draw(st.integers(0, 3))
    if kind == "map":
        return {"type": "map", "values": inner}, dict.fromkeys(draw(st.lists(st.text(max_size=3), max_size=3)), value)
    if inner == "null" or isinstance(inner, list):
        return ["null", "int"], draw(st.none() | st.integers(0, 9))
    return ["null", inner], draw(st.sampled_from([None, value]))


@given(case=cases())
def test_what_fastavro_writes_has_the_shape_it_is_checked_for(case: tuple[JsonSchema, Any]) -> None:
    """The check refuses nothing that is right: any value of any schema is written and read back as it was."""
    schema, value = case
    codec = AvroCodec(LocalSchemas({7: record(("v", schema))}), write_id=7)
    assert codec.decode(codec.encode({"v": value})) == {"v": value}


@given(case=cases(), data=st.data())
def test_nothing_but_a_decode_error_speaks_of_damaged_bytes(case: tuple[JsonSchema, Any], data: st.DataObject) -> None:
    """Bytes that were a record until something was changed, cut out or put in decode or raise DecodeError."""
    schema, value = case
    good = AvroCodec(LocalSchemas({7: schema}), write_id=7).encode(value) or HEADER
    begin = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(begin, min(len(good), begin + 3)))
    junk = data.draw(st.binary(max_size=4) | st.builds(varint, st.integers(-(2**63), 2**63 - 1)))
    damaged = good[:begin] + junk + good[end:]
    for reader in (None, schema, "string", record(("f0", "string"), ("f1", ["null", "long"]))):
        own = None if reader is None else schema_of(reader, "reader")
        error = _error(AvroCodec(LocalSchemas({7: schema}), reader=own), damaged)
        assert error is None or (error.codec == "avro" and error.code in DecodeCode)


@given(case=cases(), body=st.binary(max_size=40))
def test_nothing_but_a_decode_error_speaks_of_random_bytes(case: tuple[JsonSchema, Any], body: bytes) -> None:
    """Bytes that never were a record decode or raise DecodeError, with a header and without."""
    codec = AvroCodec(LocalSchemas({7: case[0]}))
    for data in (HEADER + body, body):
        error = _error(codec, data)
        assert error is None or error.code in DecodeCode


@given(case=cases(), cut=st.integers(1, 20))
def test_a_record_cut_short_never_decodes(case: tuple[JsonSchema, Any], cut: int) -> None:
    """Whatever the schema, bytes without their end, or with more after it, are refused."""
    schema, value = case
    codec = AvroCodec(LocalSchemas({7: record(("v", schema))}), write_id=7)
    good = codec.encode({"v": value}) or b""
    assert _error(codec, good + bytes(cut)) is not None
    if len(good) > len(HEADER):
        assert _error(codec, good[: -min(cut, len(good) - len(HEADER))]) is not None


def _error(codec: AvroCodec, data: bytes) -> DecodeError | None:
    try:
        codec.decode(data)
    except DecodeError as error:
        return error
    return None
