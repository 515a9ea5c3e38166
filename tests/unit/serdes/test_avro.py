from __future__ import annotations

import json
import struct
import threading
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import AvroSchema, JsonSchema, schema_of
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaError,
    SchemaSourceUnavailable,
)
from kafka_redelivery.serdes.framing import SchemaId
from kafka_redelivery.serdes.schemas import LocalSchemas
from tests.unit.serdes.test_editing import logical


def record(*fields: tuple[str, Any] | tuple[str, Any, Any], name: str = "Flight") -> dict[str, Any]:
    """A record schema from its fields: name, type and, if it has one, default."""
    keys = ("name", "type", "default")
    return {"type": "record", "name": name, "fields": [dict(zip(keys, field, strict=False)) for field in fields]}


FLIGHT = record(("carrier", "string"), ("number", "int"), ("delay", ["null", "double"], None))


def codec(schema: JsonSchema = FLIGHT, *, reader: JsonSchema | None = None, write_id: int | None = 7) -> AvroCodec:
    """A codec that knows one schema, under the id 7."""
    own = None if reader is None else schema_of(reader, "reader")
    return AvroCodec(LocalSchemas({7: schema}), reader=own, write_id=write_id)


def framed(body: bytes, schema_id: int = 7) -> bytes:
    """The wire format around a body."""
    return b"\0" + struct.pack(">I", schema_id) + body


def test_a_record_has_the_wire_format_of_the_registries() -> None:
    """A zero byte, the schema id in four bytes, most significant first, and the binary form of the value."""
    value = {"carrier": "UA", "number": 1545, "delay": None}
    assert codec().encode(value) == b"\x00\x00\x00\x00\x07" + b"\x04UA" + b"\x92\x18" + b"\x00"
    assert codec().decode(b"\x00\x00\x00\x00\x07\x04UA\x92\x18\x00") == value


def test_a_tombstone_passes_through_both_ways() -> None:
    """None never gets a header."""
    assert codec().decode(None) is None
    assert codec().encode(None) is None


@given(
    value=st.fixed_dictionaries(
        {
            "carrier": st.text(),
            "number": st.integers(-(2**31), 2**31 - 1),
            "delay": st.none() | st.floats(allow_nan=False),
        }
    )
)
def test_records_round_trip(value: dict[str, Any]) -> None:
    """What is written is read back as it was."""
    both = codec()
    assert both.decode(both.encode(value)) == value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("string", "UA"),
        (["null", "long"], 5),
        ({"type": "array", "items": "int"}, [1, 2, 3]),
        ({"type": "array", "items": FLIGHT}, [{"carrier": "UA", "number": 1, "delay": None}] * 2),
        ({"type": "map", "values": "double"}, {"a": 1.5}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2013, 1, 1, tzinfo=UTC)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-999.99")),
        ({"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9}, Decimal(999_999_999)),
        (record(("a", {"type": "enum", "name": "E", "symbols": ["X"]}), ("b", "E")), {"a": "X", "b": "X"}),
        (record(("next", ["null", "Flight"])), {"next": {"next": {"next": None}}}),
        (record(("children", {"type": "array", "items": "Flight"})), {"children": [{"children": []}] * 2}),
        (record(("none", {"type": "array", "items": "null"})), {"none": [None] * 1000}),
        (record(("yes", "boolean"), ("raw", "bytes"), ("f", "float")), {"yes": True, "raw": b"\0", "f": 0.5}),
        (record(("text", "string")), {"text": "x" * 100_000}),
    ],
    ids=str,
)
def test_every_kind_of_type_round_trips(schema: JsonSchema, value: object) -> None:
    """Each type of Avro is written and read, at the top as well as inside a record."""
    both = codec(schema)
    assert both.decode(both.encode(value)) == value


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", DecodeCode.TRUNCATED),
        (b"\0\0\0\0", DecodeCode.TRUNCATED),
        (b"\x01\0\0\0\x07\x04UA\0\0", DecodeCode.BAD_MAGIC),
        (b"{}", DecodeCode.BAD_MAGIC),
        (framed(b"", 8), DecodeCode.UNKNOWN_SCHEMA),
        (framed(b"", 2**32 - 1), DecodeCode.UNKNOWN_SCHEMA),
        (framed(b""), DecodeCode.TRUNCATED),
        (framed(b"\x04U"), DecodeCode.TRUNCATED),
        (framed(b"\x04UA\x02\x02\0\0"), DecodeCode.TRUNCATED),
        (framed(b"\x04UA\x02\0\0"), DecodeCode.TRAILING_BYTES),
        (framed(b"\x04\xff\xff\x02\0"), DecodeCode.NOT_UTF8),
        (framed(b"\x04UA\x02\x04"), DecodeCode.AVRO_MISMATCH),
    ],
    ids=repr,
)
def test_bad_bytes_are_told_by_their_code(data: bytes, code: DecodeCode) -> None:
    """Each way of being undecodable has a code that machines can tell apart."""
    with pytest.raises(DecodeError) as caught:
        codec().decode(data)
    assert caught.value.codec == "avro"
    assert caught.value.code == code
    assert caught.value.schema_id == (
        struct.unpack(">I", data[1:5])[0] if data[:1] == b"\0" and len(data) > 4 else None
    )


def test_a_reader_schema_drops_adds_and_promotes_fields() -> None:
    """Decoded values have the application's fields, whatever the writer's version had."""
    reader = record(("number", "long"), ("seats", "int", 0))
    data = codec().encode({"carrier": "UA", "number": 1545, "delay": None})
    assert codec(reader=reader).decode(data) == {"number": 1545, "seats": 0}


def test_a_cut_off_end_is_found_even_in_a_field_the_reader_drops() -> None:
    """A record is whole or undecodable, whichever part of it the application looks at."""
    reader = record(("carrier", "string"))
    with pytest.raises(DecodeError) as caught:
        codec(reader=reader).decode(framed(b"\x04UA\x02\x02\0\0"))
    assert caught.value.code == DecodeCode.TRUNCATED


def test_a_reader_that_cannot_take_the_value_is_a_mismatch() -> None:
    """A record that does not fit the application's schema is undecodable for it, and the reason is short."""
    with pytest.raises(DecodeError) as caught:
        codec(reader=record(*((f"field_{n}", "string") for n in range(200)))).decode(framed(b"\x04UA\x02\0"))
    assert caught.value.code == DecodeCode.AVRO_MISMATCH
    assert len(caught.value.reason) <= 300


def test_a_reader_equal_to_the_writer_changes_nothing() -> None:
    """The usual case of one version everywhere costs no resolution and gives the same value."""
    data = codec().encode({"carrier": "UA", "number": 1, "delay": 2.0})
    assert codec(reader=FLIGHT).decode(data) == codec().decode(data)


TAGS: tuple[str, Any, Any] = ("tags", {"type": "array", "items": "string"}, [])
INNER_OLD, INNER_NEW = record(("n", "int"), name="Inner"), record(("n", "int"), TAGS, name="Inner")


@pytest.mark.parametrize(
    ("writer", "reader", "body"),
    [
        (record(("inner", INNER_OLD)), record(("inner", INNER_NEW)), b"\x02"),
        (record(("inner", ["null", INNER_OLD])), record(("inner", ["null", INNER_NEW])), b"\x02\x02"),
        (
            record(("inner", {"type": "map", "values": INNER_OLD})),
            record(("inner", {"type": "map", "values": INNER_NEW})),
            b"\x02\x02k\x02\0",
        ),
        (
            record(("inner", {"type": "array", "items": INNER_OLD})),
            record(("inner", {"type": "array", "items": INNER_NEW})),
            b"\x02\x02\0",
        ),
    ],
    ids=["record", "union", "map", "array"],
)
def test_defaults_of_the_reader_are_not_shared_between_records(
    writer: JsonSchema, reader: JsonSchema, body: bytes
) -> None:
    """A handler that fills a default list does not find it filled in the next record."""
    resolving = codec(writer, reader=reader)

    def tags() -> list[str]:
        inner = resolving.decode(framed(body))["inner"]
        if isinstance(inner, list):
            inner = inner[0]
        inner = inner.get("k", inner)
        found: list[str] = inner["tags"]
        return found

    tags().append("changed")
    assert tags() == []


@pytest.mark.parametrize(
    "value",
    [
        {"carrier": "UA"},
        {"carrier": "UA", "number": 1, "delay": None, "unknown": 1},
        {"carrier": 1, "number": 1},
        {"carrier": "UA", "number": "one"},
        {"carrier": "UA", "number": 2**31},
        {"carrier": "UA", "number": 2**64},
        {"carrier": "\ud800", "number": 1},
        {"carrier": "UA", "number": 1, "delay": "late"},
        "UA",
        17,
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_the_write_schema_is_refused(value: object) -> None:
    """Nothing is dropped, defaulted or cut silently: a wrong value is the handler's error."""
    with pytest.raises(EncodeError) as caught:
        codec().encode(value)
    assert caught.value.code == EncodeCode.AVRO_MISMATCH
    assert caught.value.schema_id == 7


def test_a_field_with_a_default_may_be_left_out() -> None:
    """Values written before a field existed can still be written."""
    assert codec().encode({"carrier": "UA", "number": 1}) == framed(b"\x04UA\x02\0")


def test_a_value_nested_without_end_is_refused() -> None:
    """A cycle in a value of a recursive type is an error, not the end of the process."""
    cycle: dict[str, Any] = {}
    cycle["next"] = [cycle]
    with pytest.raises(EncodeError, match="Recursion"):
        codec(record(("next", {"type": "array", "items": "Flight"}))).encode(cycle)


def test_a_codec_without_a_write_schema_only_reads() -> None:
    """Writing was not configured, so writing is refused."""
    reading = codec(write_id=None)
    assert reading.decode(framed(b"\x04UA\x02\0"))["carrier"] == "UA"
    with pytest.raises(EncodeError) as caught:
        reading.encode({"carrier": "UA", "number": 1})
    assert caught.value.code == EncodeCode.NO_WRITE_SCHEMA


def test_an_unknown_write_id_is_an_encode_error() -> None:
    """A write schema that does not exist is told as such when it is needed."""
    with pytest.raises(EncodeError) as caught:
        codec(write_id=8).encode({})
    assert caught.value.code == EncodeCode.UNKNOWN_SCHEMA


DECIMAL = logical("bytes", "decimal", precision=4, scale=2)
FIXED_DECIMAL = {**DECIMAL, "type": "fixed", "size": 2, "name": "D"}
INNER = record(("raw", "bytes"), ("at", logical("long", "timestamp-micros"), 1000), name="Inner")


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u0000ÿ", b"\0\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000ÿ", b"\0\xff"),
        (DECIMAL, "\u0004Ò", Decimal("12.34")),
        (FIXED_DECIMAL, "ÿÿ", Decimal("-0.01")),
        (
            logical("string", "uuid"),
            "7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb",
            UUID("7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb"),
        ),
        (logical("string", "uuid"), "", ""),
        (logical("int", "date"), 0, date(1970, 1, 1)),
        (logical("int", "time-millis"), 1500, time(0, 0, 1, 500_000)),
        (logical("long", "timestamp-millis"), 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (logical("long", "timestamp-millis"), 2**63 - 1, 2**63 - 1),
        (logical("long", "local-timestamp-micros"), 5, datetime(1970, 1, 1, 0, 0, 0, 5)),  # noqa: DTZ001 - local
        ("float", 0.1, 0.10000000149011612),
        ("double", 5, 5.0),
        (["null", DECIMAL], None, None),
        ([DECIMAL, "null"], "\u0001", Decimal("0.01")),
        ({"type": "array", "items": "bytes"}, ["ÿ"], [b"\xff"]),
        ({"type": "map", "values": DECIMAL}, {"a": "\u0001"}, {"a": Decimal("0.01")}),
        (INNER, {"raw": "ÿ"}, {"raw": b"\xff", "at": datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)}),
        (["null", INNER], {"raw": "ÿ"}, {"raw": b"\xff", "at": datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)}),
    ],
    ids=str,
)
@pytest.mark.parametrize("in_array", [False, True])
def test_a_default_is_the_value_that_a_written_one_is_decoded_to(
    kind: JsonSchema, default: object, value: object, *, in_array: bool
) -> None:
    """A handler gets the same class from old records and from new ones, and can send either on."""
    versions: list[JsonSchema] = [record(("n", "int")), record(("n", "int"), ("added", kind, default))]
    old, new = [{"type": "array", "items": each} for each in versions] if in_array else versions
    both = AvroCodec(LocalSchemas({7: old, 8: new}), reader=schema_of(new, "reader"), write_id=8)
    found = both.decode(framed(b"\x02\x02\0" if in_array else b"\x02"))
    (item,) = found if in_array else [found]
    assert item == {"n": 1, "added": value}
    assert type(item["added"]) is type(value)
    data = both.encode(found)
    assert both.decode(data) == found
    assert both.encode([{"n": 1}] if in_array else {"n": 1}) == data


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "int"], "X", "A"),
        (logical("bytes", "decimal", precision=2), "d", Decimal(99)),
    ],
    ids=str,
)
def test_a_default_that_is_no_value_of_its_field_is_left_out(kind: JsonSchema, default: object, value: object) -> None:
    """Java accepts such a schema. It has no such symbol, and 100 has more than two digits."""
    both = codec(record(("v", kind, default)))
    assert both.decode(both.encode({"v": value})) == {"v": value}
    new = AvroCodec.of({7: record(("n", "int"))}, reader=record(("n", "int"), ("v", kind, default)))
    with pytest.raises(DecodeError, match="No default value"):
        new.decode(framed(b"\x02"))


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (logical("long", "timestamp-millis"), 253_402_300_800_000),
        (logical("long", "timestamp-millis"), 2**63 - 1),
        (logical("long", "timestamp-micros"), -(2**63)),
        (logical("long", "local-timestamp-millis"), 2**63 - 1),
        (logical("long", "local-timestamp-micros"), 2**63 - 1),
        (logical("int", "date"), 2_932_897),
        (logical("int", "date"), -(2**31)),
        (logical("int", "time-millis"), 86_400_000),
        (logical("int", "time-millis"), -1),
        (logical("long", "time-micros"), 2**63 - 1),
        (logical("string", "uuid"), "order 17"),
        (logical("string", "uuid"), ""),
    ],
    ids=str,
)
def test_what_python_cannot_represent_is_the_number_or_text_itself(kind: JsonSchema, written: int | str) -> None:
    """Such a record is valid, a handler can work with it, and what it sends on is the same again."""
    as_written = str(kind["type"]) if isinstance(kind, dict) else kind
    for schema, plain in ((kind, as_written), (record(("v", ["null", kind])), record(("v", ["null", as_written])))):
        data = codec(plain).encode({"v": written} if schema is not kind else written)
        both = codec(schema)
        value = both.decode(data)
        assert value == ({"v": written} if schema is not kind else written)
        assert both.encode(value) == data


@pytest.mark.parametrize("unit", ["millis", "micros"])
@pytest.mark.parametrize("optional", [False, True])
def test_a_datetime_without_a_zone_is_refused_for_a_timestamp(unit: str, *, optional: bool) -> None:
    """Which moment it means depends on the machine. A local timestamp is without a zone."""
    noon = datetime(2026, 11, 28, 12)  # noqa: DTZ001 - that is the test
    kind = logical("long", f"timestamp-{unit}")
    with pytest.raises(EncodeError, match="has no time zone") as refused:
        codec(record(("at", [logical("int", "date"), kind] if optional else kind))).encode({"at": noon})
    assert refused.value.code == EncodeCode.AVRO_MISMATCH
    local = codec(record(("at", logical("long", f"local-timestamp-{unit}"))))
    assert local.decode(local.encode({"at": noon})) == {"at": noon}


class Faulty:
    """A source that fails in one way, and notes what it was asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked: list[object] = []

    def by_id(self, schema_id: SchemaId) -> AvroSchema:
        self.asked.append(schema_id)
        raise self.error

    def guid_of(self, schema_id: int) -> UUID | None:
        self.asked.append(schema_id)
        raise self.error

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        self.asked.append((subject, schema.name))
        raise self.error

    def latest_in(self, subject: str) -> int:
        self.asked.append(subject)
        raise self.error


def test_an_unavailable_source_is_not_the_records_fault() -> None:
    """While schemas cannot be had, no record is called undecodable, and the next one asks again."""
    source = Faulty(SchemaSourceUnavailable("registry", "refused"))
    both = AvroCodec(source, reader=schema_of(FLIGHT, "reader"), subject="flights-value")
    for _ in range(2):
        with pytest.raises(SchemaSourceUnavailable):
            both.decode(framed(b"\x04UA\x02\0"))
        with pytest.raises(SchemaSourceUnavailable):
            both.encode({"carrier": "UA", "number": 1})
    assert source.asked == [7, ("flights-value", "Flight")] * 2


def test_an_unusable_schema_makes_its_records_undecodable() -> None:
    """One bad schema never stops a partition: its records are dead letters, to be redriven when it is fixed."""
    both = AvroCodec(Faulty(SchemaError("7", "is not JSON")), write_id=7)
    with pytest.raises(DecodeError) as caught:
        both.decode(framed(b""))
    assert caught.value.code == DecodeCode.BAD_SCHEMA
    with pytest.raises(EncodeError) as refused:
        both.encode({})
    assert refused.value.code == EncodeCode.BAD_SCHEMA


def test_a_lack_of_memory_is_not_the_records_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory is a critical failure of the process: it reaches the worker as itself."""

    def no_memory(*_args: object, **_more: object) -> None:
        raise MemoryError

    monkeypatch.setattr("kafka_redelivery.serdes.avro_types.schemaless_reader", no_memory)
    monkeypatch.setattr("kafka_redelivery.serdes.avro_types.schemaless_writer", no_memory)
    with pytest.raises(MemoryError):
        codec().decode(framed(b"\x04UA\x02\0"))
    with pytest.raises(MemoryError):
        codec().encode({"carrier": "UA", "number": 1})


def test_one_codec_serves_several_threads() -> None:
    """Handler slots share a codec; each gets its own record."""
    both = codec()
    wrong: list[int] = []

    def work(number: int) -> None:
        value = {"carrier": "UA", "number": number, "delay": float(number)}
        if any(both.decode(both.encode(value)) != value for _ in range(500)):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class TestWithoutARegistry:
    """The codec that users create from their schemas."""

    def test_the_only_schema_is_written(self) -> None:
        """With the id in the header."""
        codec = AvroCodec.of({7: {"type": "string"}})
        assert codec.encode("A1") == b"\x00\x00\x00\x00\x07\x04A1"
        assert codec.decode(b"\x00\x00\x00\x00\x07\x04A1") == "A1"

    def test_one_of_several_is_named(self) -> None:
        """Without a name the codec only decodes; an id that is not there is refused at once."""
        schemas = {7: {"type": "string"}, 8: {"type": "int"}}
        assert AvroCodec.of(schemas, write_id=8).encode(1) == b"\x00\x00\x00\x00\x08\x02"
        with pytest.raises(EncodeError):
            AvroCodec.of(schemas).encode(1)
        with pytest.raises(SchemaError, match="id 9"):
            AvroCodec.of(schemas, write_id=9)

    def test_versions_are_resolved_into_the_reader(self, tmp_path: Path) -> None:
        """A file or JSON; fields that only the reader has get their default."""
        old = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
        new = {**old, "fields": [*old["fields"], {"name": "amount", "type": "int", "default": 5}]}
        (tmp_path / "order.avsc").write_text(json.dumps(new))
        codec = AvroCodec.of({1: old}, reader=tmp_path / "order.avsc")
        assert codec.decode(AvroCodec.of({1: old}).encode({"id": "x"})) == {"id": "x", "amount": 5}


def test_no_thread_encodes_before_the_header_of_its_schema_is_known() -> None:
    """The bytes of another thread would have the id neither before them nor in a header."""
    order: list[str] = []

    class Noted(AvroCodec):
        def __setattr__(self, name: str, value: object) -> None:
            order.append(name)
            super().__setattr__(name, value)

    codec = Noted(LocalSchemas({7: FLIGHT}), write_id=7, in_header=True)
    order.clear()
    codec.encode({"carrier": "UA", "number": 1})
    assert order == ["written_header", "_writing"]
