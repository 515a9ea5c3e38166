"""A value as text for an editor: it becomes the same bytes again, and an edited one those of its schema."""

from __future__ import annotations

import json
import struct
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import JsonSchema, schema_of
from kafka_redelivery.serdes.codec import JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import DecodeError, EncodeError, NotIdenticalError
from kafka_redelivery.serdes.schemas import LocalSchemas
from tests.unit.serdes.test_avro_hostile import HEADER, array, cases, record, varint


def avro(schema: JsonSchema) -> AvroCodec:
    """A codec for one schema."""
    return AvroCodec(LocalSchemas({7: schema}), write_id=7)


def logical(kind: str, logical_type: str, **more: object) -> dict[str, Any]:
    """A schema with a logical type."""
    return {"type": kind, "logicalType": logical_type, **more}


DECIMAL = logical("bytes", "decimal", precision=9, scale=2)
FIXED_DECIMAL = logical("fixed", "decimal", name="D", size=5, precision=9, scale=2)

ANY_OF: JsonSchema = [
    "null",
    "boolean",
    "double",
    "string",
    {"type": "enum", "name": "E", "symbols": ["X", "Y"]},
    {"type": "array", "items": ["int", "string"]},
    {"type": "map", "values": "long"},
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.integers(-5, 5) | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=3),
)


@given(case=cases() | st.tuples(st.just(ANY_OF), VALUES))
def test_any_avro_value_becomes_the_same_bytes_again(case: tuple[JsonSchema, Any]) -> None:
    """What fastavro has written, with any schema, is the same after the text; what it reads from both is equal."""
    schema, value = case
    codec = avro(record(("v", schema)))
    data = codec.encode({"v": value}) or b""
    text = editable(codec, data)
    assert text.encode(text.text) == data
    assert text.encode(json.dumps(json.loads(text.text))) == data


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ("long", st.integers(-(2**63), 2**63 - 1)),
        (logical("int", "date"), st.integers(-(2**31), 2**31 - 1)),
        (logical("int", "time-millis"), st.integers(0, 86_400_001)),
        (logical("long", "time-micros"), st.integers(-1, 86_400_000_001)),
        *(
            (logical("long", f"{prefix}timestamp-{unit}"), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**50))
            for prefix in ("", "local-")
            for unit in ("millis", "micros", "nanos")
        ),
    ],
    ids=str,
)
def test_any_number_of_a_logical_type_becomes_the_same_bytes_again(
    schema: JsonSchema, values: st.SearchStrategy[int]
) -> None:
    """Also one that no date or time represents: its text is the number."""
    written = avro(schema).written(HEADER)

    @given(number=values)
    def check(number: int) -> None:
        data = HEADER + varint(number)
        assert written.from_json(json.loads(json.dumps(written.as_json(data)))) == data

    check()


@given(data=st.binary(max_size=3), size=st.sampled_from(["bytes", "fixed"]))
def test_any_bytes_of_a_decimal_become_the_same_again(data: bytes, size: str) -> None:
    """Also padded ones, which are longer than the number needs."""
    if size == "bytes":
        written, data = avro(DECIMAL).written(HEADER), HEADER + varint(len(data)) + data
    else:
        written, data = avro(FIXED_DECIMAL).written(HEADER), HEADER + data.rjust(5, data[:1] or b"\0")
        data = data[:5] + bytes([255 if data[5] > 127 else 0] * 2) + data[7:]
    assert written.from_json(json.loads(json.dumps(written.as_json(data)))) == data


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (DECIMAL, "12.30", "12.30"),
        (DECIMAL, "-0.5", "-0.50"),
        (DECIMAL, "1e3", "1000.00"),
        (DECIMAL, "0e-9", "0.00"),
        (DECIMAL, {"bytes": "\0\1"}, {"bytes": "\0\1"}),
        (DECIMAL, {"bytes": "\x80"}, "-1.28"),
        (FIXED_DECIMAL, "-1", "-1.00"),
        (logical("int", "date"), "2026-11-23", "2026-11-23"),
        (logical("int", "date"), 3, "1970-01-04"),
        (logical("int", "time-millis"), "02:00", "02:00:00.000"),
        (logical("int", "time-millis"), -1, -1),
        (logical("long", "timestamp-millis"), "2026-11-23T02:00:00+01:00", "2026-11-23T01:00:00.000Z"),
        (logical("long", "local-timestamp-micros"), "2026-11-23T02:00:00.000001", "2026-11-23T02:00:00.000001"),
        ("float", 1, 1.0),
        ("float", "NaN", "NaN"),
        ("double", "-Infinity", "-Infinity"),
        ("double", "Infinity", "Infinity"),
        ("bytes", "\xff\0", "\xff\0"),
        (["null", "long"], 5, 5),
        (["string", "null"], None, None),
        (["int", "string", "null"], {"string": "x"}, {"string": "x"}),
        (["int", "string", "null"], None, None),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
    ],
    ids=str,
)
def test_how_a_value_is_written(schema: JsonSchema, value: object, expected: object) -> None:
    """Each type has one form; a few others are understood."""
    text = editable(avro(record(("v", ["null", "int"]))), HEADER + b"\0")
    assert json.loads(text.text) == {"v": None}
    written = avro(schema).written(HEADER)
    assert written.as_json(written.from_json(value)) == expected


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ("null", 0, "needs null"),
        ("boolean", 1, "true or false"),
        ("int", 2**31, "does not fit into an Avro int"),
        ("int", True, "without fraction"),
        ("long", 1.0, "without fraction"),
        ("float", 1e39, "does not fit into an Avro float"),
        ("double", 10**400, "does not fit"),
        ("double", "1", "needs a number"),
        ("string", 1, "needs text"),
        ("string", "\ud800", "surrogates"),
        ("bytes", "€", "'€' is not a byte"),
        ("bytes", 1, "one character per byte"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "3 bytes instead of 2"),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, "Y", "is none of X"),
        (array("int"), {}, "needs an array"),
        (array("int"), [1, "x"], "$[1]:"),
        ({"type": "map", "values": "int"}, [], "needs an object"),
        ({"type": "map", "values": "int"}, {"a": None}, "$.a:"),
        (record(("a", "int")), [], "needs an object"),
        (record(("a", "int")), {}, "$.a: is missing"),
        (record(("a", "int")), {"a": 1, "b": 2}, "$.b: the schema has no such field; it has a"),
        (["int", "string"], 1, 'needs {"int": ...} or {"string": ...}'),
        (["int", "string", "null"], {"null": 1}, "or null"),
        (DECIMAL, "12.345", "more than 2 digits after the point"),
        (DECIMAL, "12345678.00", "more than 9 digits"),
        (DECIMAL, "1e999999999", "more than 9 digits"),
        (DECIMAL, "x", "is not a decimal"),
        (DECIMAL, "NaN", "finite"),
        (DECIMAL, 12, "needs a decimal number as text"),
        (DECIMAL, {"bytes": 1}, "$.bytes"),
        (logical("int", "date"), "yesterday", "isoformat"),
        (logical("int", "time-millis"), "02:00:00.0001", "finer than a millisecond"),
        (logical("int", "time-millis"), "02:00Z", "no zone"),
        (logical("long", "timestamp-millis"), "2026-11-23T02:00", "end it with Z"),
        (logical("long", "local-timestamp-millis"), "2026-11-23T02:00Z", "no zone"),
    ],
    ids=str,
)
def test_what_is_not_a_value_is_refused_with_its_place(schema: JsonSchema, value: object, problem: str) -> None:
    """The error names the field, and what it needs."""
    with pytest.raises(EncodeError) as caught:
        avro(schema).written(HEADER).from_json(value)
    assert problem in str(caught.value)
    assert "$" in str(caught.value)
    assert caught.value.schema_id == 7


LIST = record(("v", "int"), ("sub", array("R")))


def test_what_an_editor_may_return() -> None:
    """It has to be JSON with each field once, of a value that the worker can read."""
    codec = AvroCodec(LocalSchemas({7: LIST}), reader=schema_of(LIST, "reader"))
    text = editable(codec, HEADER + b"\x02\0")
    assert text.suffix == ".json"
    deep = '{"v": 1, "sub": [' * 200 + "]}" * 200
    for edited, problem in (
        ("{", "not_json"),
        ('{"v": 1, "v": 2, "sub": []}', "'v' is given twice"),
        ('{"v": NaN, "sub": []}', 'write "NaN"'),
        ("[" * 100_000, "nested too deep"),
        (deep, "nested more than 100 levels"),
    ):
        with pytest.raises(EncodeError) as caught:
            text.encode(edited)
        assert problem in str(caught.value), edited[:50]
    value: dict[str, Any] = {"v": 1, "sub": []}
    for _ in range(3000):
        value = {"v": 1, "sub": [value]}
    with pytest.raises(EncodeError, match="nested too deep"):
        codec.written(HEADER).from_json(value)


def test_a_value_that_the_reader_cannot_take_is_refused() -> None:
    """The worker would dead-letter it again: the application's own schema has another symbol."""
    kinds = [{"type": "enum", "name": "E", "symbols": [*symbols]} for symbols in ("XY", "X")]
    codec = AvroCodec(LocalSchemas({7: kinds[0]}), reader=schema_of(kinds[1], "reader"))
    text = editable(codec, HEADER + b"\0")
    assert text.encode('"X"') == HEADER + b"\0"
    with pytest.raises(EncodeError, match="avro_mismatch"):
        text.encode('"Y"')


@pytest.mark.parametrize(
    ("schema", "body", "problem"),
    [
        (array("int"), varint(-1) + varint(1) + b"\x02\0", "from byte 5 on: 01 02 02 00 would become 02 02 00"),
        ({"type": "map", "values": "int"}, b"\x04\x02a\x02\x02a\x02\0", "13 bytes would become 10"),
        ("long", b"\x80\0", "80 00 would become 00"),
        ("double", struct.pack("<Q", 0x7FF8000000000001), "differ from byte 5 on"),
    ],
    ids=["block with size", "key twice", "padded number", "another NaN"],
)
def test_what_would_become_other_bytes_is_refused(schema: JsonSchema, body: bytes, problem: str) -> None:
    """Before anything is edited, and the error says where the bytes differ."""
    with pytest.raises(NotIdenticalError) as caught:
        editable(avro(schema), HEADER + body)
    assert problem in str(caught.value)
    assert caught.value.codec == "avro"


@pytest.mark.parametrize(
    ("schema", "data"),
    [("int", b"\1"), ("int", HEADER), ("string", HEADER + b"\x02\xff"), ("int", b"\0\0\0\0\x08\2")],
    ids=["no header", "truncated", "not UTF-8", "unknown schema"],
)
def test_what_cannot_be_decoded_is_not_edited(schema: JsonSchema, data: bytes) -> None:
    """The reason is that of the worker."""
    with pytest.raises(DecodeError):
        editable(avro(schema), data)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":[1.50,"\\u00e9é\\"\\\\",{"c":null}],"a":[],"d":{}}',
        '{"a": 1, "b": [1e5, "x"]}',
        '{"a" :1}',
        '{\n  "a": 1\n}\n',
        '"x"',
        "not { json",
        "",
    ],
)
def test_json_keeps_its_formatting(text: str) -> None:
    """In one line it is shown with a line for each item; otherwise, and if it is broken, as it is."""
    found = editable(JsonCodec(), text.encode())
    if text.startswith(('{"a":', '{"a": ')):
        assert "\n" in found.text
        assert json.loads(found.text) == json.loads(text)
        assert found.encode(found.text) == text.encode()
        assert found.encode(found.text + "\n") == text.encode()
    else:
        assert found.text == text
    compact = text.startswith(('{"a":1,', '"'))
    assert found.encode('{"b": 2.50}') == (b'{"b":2.50}' if compact else b'{"b": 2.50}')
    for broken in ("{", '{"a": NaN}', "\ud800"):
        with pytest.raises(EncodeError):
            found.encode(broken)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
    escaped=st.booleans(),
    compact=st.booleans(),
    indent=st.sampled_from([None, None, 2]),
)
def test_any_json_becomes_the_same_bytes_again(
    *, value: object, escaped: bool, compact: bool, indent: int | None
) -> None:
    """Whatever its strings contain, and however it is written."""
    separators = (",", ":") if compact else None
    try:
        data = json.dumps(value, ensure_ascii=escaped, separators=separators, indent=indent).encode()
    except UnicodeEncodeError:
        return
    found = editable(JsonCodec(), data)
    assert found.encode(found.text) == data


def test_text_is_edited_as_it_is() -> None:
    """Bytes that are no text are not edited."""
    for codec in (RawCodec(), StringCodec()):
        found = editable(codec, "a\r\né".encode())
        assert (found.text, found.suffix) == ("a\r\né", ".txt")
        assert found.encode("b") == b"b"
        with pytest.raises(DecodeError, match="not_utf8"):
            editable(codec, b"\xff")


def test_characters_that_deceive_are_escaped_in_avro() -> None:
    """An editor shows what is there: no escape sequence, and no text that runs backwards."""
    codec = avro("string")
    data = codec.encode("\x1b[31m\u202ered") or b""
    found = editable(codec, data)
    assert found.text == '"\\u001b[31m\\u202ered"'
    assert found.encode(found.text) == data


def test_utc_is_the_zone_of_a_timestamp() -> None:
    """The worker reads the time that was written."""
    codec = avro(logical("long", "timestamp-millis"))
    data = editable(codec, HEADER + b"\0").encode('"2026-11-23T02:00:00.123Z"')
    assert codec.decode(data).astimezone(UTC).isoformat() == "2026-11-23T02:00:00.123000+00:00"
