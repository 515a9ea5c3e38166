from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.common import protobuf as confluent
from google.protobuf import any_pb2, struct_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    NotIdenticalError,
    SchemaError,
)
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.serdes.plain import as_json
from kafka_redelivery.serdes.protobuf import ProtobufCodec, schema_in_set
from kafka_redelivery.serdes.schemas import KnownSchemas
from tests.unit.serdes.flights import DESCRIPTOR_SET, HEADER, Flight, Gate

CODEC = ProtobufCodec.of({7: Flight})
UNITED = HEADER + b"\x0a\x02UA"
BUNDLED = {each.DESCRIPTOR.name for name, each in vars(confluent).items() if name.endswith("_pb2")}
UNKNOWN_FIELD = b"\xa2\x06\x01x"
"""Field 100."""


@pytest.fixture
def descriptor_set(tmp_path: Path) -> Path:
    """The file that protoc would write."""
    path = tmp_path / "flight.desc"
    path.write_bytes(DESCRIPTOR_SET)
    return path


def test_a_message_is_decoded_and_encoded() -> None:
    """The header has the id and the place of the message in its file."""
    found: Any = CODEC.decode(UNITED)
    assert found == Flight(carrier="UA")
    assert CODEC.encode(found) == UNITED
    assert CODEC.encode({"carrier": "UA"}) == UNITED
    assert CODEC.decode(None) is None
    assert CODEC.encode(None) is None


def test_a_descriptor_set_is_a_schema(descriptor_set: Path) -> None:
    """Its last file is the schema; a message of it is written by its full name, and the first one by default."""
    codec = ProtobufCodec(KnownSchemas({7: schema_in_set(descriptor_set)}), write_id=7, message="nyc.Flight")
    assert codec.encode({"carrier": "UA", "leg": {"to": {"code": "EWR"}}}) is not None
    assert codec.encode(Flight(carrier="UA")) == UNITED
    first = ProtobufCodec.of({7: descriptor_set})
    assert first.encode({"name": "A1"}) == b"\0\0\0\0\x07\0\x0a\x02A1"


def test_a_nested_message_has_a_path() -> None:
    """The indexes lead from the file to the message, in zigzag encoding."""
    codec = ProtobufCodec.of({7: Flight.Leg})
    data = codec.encode({"delay": -3})
    assert data == b"\0\0\0\0\x07\x04\x02\x00\x10\x05"
    assert codec.decode(data) == Flight.Leg(delay=-3)


@dataclass
class Planned:
    carrier: str
    gone_at: datetime
    number: int | None = None


def test_an_object_of_a_users_class_is_encoded() -> None:
    """Its names are those of the fields; None is a field that is not set."""
    at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    found: Any = CODEC.decode(CODEC.encode(Planned("UA", at)))
    assert found.gone_at.ToDatetime(UTC) == at
    assert not found.HasField("number")


@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_a_schema_may_import_each_file_that_confluents_clients_have(tmp_path: Path, name: str) -> None:
    """Their writers do not register it as a reference."""
    path = tmp_path / "order.desc"
    order = FileDescriptorProto(name="order.proto", dependency=[name], message_type=[DescriptorProto(name="Order")])
    path.write_bytes(FileDescriptorSet(file=[order]).SerializeToString())
    assert ProtobufCodec.of({7: path}).decode(b"\0\0\0\0\x07\0") is not None


def test_a_null_of_json_is_none() -> None:
    """Alone, and within a message."""
    null = struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    assert plain(null) is None
    assert plain(struct_pb2.ListValue(values=[null, struct_pb2.Value(string_value="x")])) == [None, "x"]


def test_a_message_as_plain_values() -> None:
    """Fields without a value are absent if they know it; names, numbers and times are those of Python."""
    at = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    flight = Flight(
        carrier="UA", distance=2**62, serial=2**64 - 1, tag=b"\xff", state="GONE", legs={"a": {"delay": 0}},
        seats={-1: "x"}, gate={"name": "A1"}, gone_at=at, extra={"a": [1, None]},
    )  # fmt: skip
    assert plain(flight) == {
        "carrier": "UA", "distance": 2**62, "serial": 2**64 - 1, "tag": b"\xff", "state": "GONE", "fares": [],
        "legs": {"a": {"delay": 0, "more": []}}, "seats": {-1: "x"}, "gate": {"name": "A1"}, "gone_at": at,
        "extra": {"a": [1, None]},
    }  # fmt: skip
    assert json.loads(as_json(flight))["distance"] == 2**62
    assert plain(Flight(gone_at={"nanos": 1}))["gone_at"] == {"seconds": 0, "nanos": 1}
    unknown_state = Flight.FromString(b"\x30\x05")
    assert plain(unknown_state)["state"] == 5


def test_what_stands_for_a_well_known_type_is_encoded_again(descriptor_set: Path) -> None:
    """Anywhere: a field, an item of a list or a value of a map, and within other messages."""
    box = DescriptorProto(name="Box")
    types = {"json": "Value", "time": "Timestamp", "span": "Duration", "more": "Struct", "some": "ListValue"}
    for number, (name, type_) in enumerate(types.items()):
        each = f".google.protobuf.{type_}"
        entry = box.nested_type.add(name=f"{name.title()}MapEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type="TYPE_STRING")
        entry.field.add(name="value", number=2, type="TYPE_MESSAGE", type_name=each)
        box.field.add(name=name, number=3 * number + 1, type="TYPE_MESSAGE", type_name=each)
        many: Any = {"type": "TYPE_MESSAGE", "label": "LABEL_REPEATED"}
        box.field.add(name=f"{name}_list", number=3 * number + 2, type_name=each, **many)
        box.field.add(name=f"{name}_map", number=3 * number + 3, type_name=f".nyc.Box.{entry.name}", **many)
    box.field.add(name="inner", number=20, type="TYPE_MESSAGE", type_name=".nyc.Box")
    imports = [f"google/protobuf/{each}.proto" for each in ("struct", "timestamp", "duration")]
    file = FileDescriptorProto(name="b.proto", package="nyc", syntax="proto3", dependency=imports, message_type=[box])
    descriptor_set.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    codec = ProtobufCodec.of({7: descriptor_set})
    samples: dict[str, list[Any]] = {
        "json": ["x", 1.5, True, {"a": [None]}, ["x"]],
        "time": [datetime(2026, 1, 2, 3, tzinfo=UTC)],
        "span": [timedelta(seconds=1.5)],
        "more": [{"a": {"b": None}}, {}],
        "some": [[1.5, "x"], []],
    }
    for name, values in samples.items():
        lists = [*values, None] if name == "json" else values
        for value in values:
            fields = {name: value, f"{name}_list": lists, f"{name}_map": {str(n): item for n, item in enumerate(lists)}}
            for some in (fields, {name: value}, {f"{name}_map": {"a": value}}):
                assert some.items() <= plain(codec.decode(codec.encode(some))).items()
                assert some.items() <= plain(codec.decode(codec.encode({"inner": some})))["inner"].items()
    assert "json" not in plain(codec.decode(codec.encode({"json": None, "json_list": ["x"]})))
    no_values: list[dict[str, object]] = [{"json": object()}, {"json": 1, "color": 1}]
    for wrong in no_values:
        with pytest.raises(EncodeError, match=r"unexpected type|color") as caught:
            codec.encode(wrong)
        assert caught.value.code == EncodeCode.SCHEMA_MISMATCH


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"", DecodeCode.TRUNCATED, "0 bytes"),
        (b"{}", DecodeCode.BAD_MAGIC, "byte 123"),
        (b"\0\0\0\0\x07", DecodeCode.TRUNCATED, "ends within the indexes"),
        (b"\0\0\0\0\x07\x80", DecodeCode.TRUNCATED, "ends within the indexes"),
        (b"\0\0\0\0\x07\x04\x02", DecodeCode.TRUNCATED, "ends within the indexes"),
        (b"\0\0\0\0\x07" + b"\x80" * 9, DecodeCode.SCHEMA_MISMATCH, "no 32-bit number"),
        (b"\0\0\0\0\x07\xff\xff\x03", DecodeCode.SCHEMA_MISMATCH, "levels deep"),
        (b"\0\0\0\0\x07\x01", DecodeCode.SCHEMA_MISMATCH, "levels deep"),
        (b"\0\0\0\0\x07\x02\x01", DecodeCode.SCHEMA_MISMATCH, "negative"),
        (b"\0\0\0\0\x07\x02\x08", DecodeCode.SCHEMA_MISMATCH, "the message 4, which its schema does not have"),
        (b"\0\0\0\0\x08\0", DecodeCode.UNKNOWN_SCHEMA, "schema with id 8"),
        (HEADER + b"\x0a\x05UA", DecodeCode.SCHEMA_MISMATCH, "nyc.Flight"),
        (HEADER + b"\x0a\x01\xff", DecodeCode.SCHEMA_MISMATCH, "nyc.Flight"),
    ],
)
def test_faulty_bytes(data: bytes, code: DecodeCode, text: str) -> None:
    """Each fault has its code and says what is wrong."""
    with pytest.raises(DecodeError, match=text) as caught:
        CODEC.decode(data)
    assert caught.value.code == code


def test_a_value_that_is_nested_too_deep() -> None:
    """Protobuf reads a hundred levels."""
    codec, data = ProtobufCodec.of({7: Flight.Leg}), b""
    for _ in range(101):
        size = len(data)
        data = b"\x1a" + (bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])) + data
    with pytest.raises(DecodeError) as caught:
        codec.decode(b"\0\0\0\0\x07\x04\x02\x00" + data)
    assert caught.value.code == DecodeCode.TOO_DEEP


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ({"carier": "UA"}, EncodeCode.SCHEMA_MISMATCH, "carier"),
        ({"distance": 2**63}, EncodeCode.SCHEMA_MISMATCH, "out of range"),
        ({"carrier": 1}, EncodeCode.SCHEMA_MISMATCH, "TypeError"),
        ("UA", EncodeCode.WRONG_TYPE, "got str"),
        (Gate(), EncodeCode.WRONG_TYPE, "needs a nyc.Flight, got a nyc.Gate"),
    ],
)
def test_values_that_do_not_fit(value: object, code: EncodeCode, text: str) -> None:
    """The error names the field."""
    with pytest.raises(EncodeError, match=text) as caught:
        CODEC.encode(value)
    assert caught.value.code == code


def test_a_codec_without_a_write_schema_only_decodes() -> None:
    """As of a source."""
    codec = ProtobufCodec.of({7: Flight, 8: Gate})
    assert codec.decode(UNITED) == Flight(carrier="UA")
    with pytest.raises(EncodeError) as caught:
        codec.encode({})
    assert caught.value.code == EncodeCode.NO_WRITE_SCHEMA


def test_faulty_schemas(tmp_path: Path, descriptor_set: Path) -> None:
    """A file that is missing, none, empty, or lacks an import; a message that is not there."""
    path = tmp_path / "other.desc"
    with pytest.raises(SchemaError, match="cannot be read"):
        schema_in_set(path)
    path.write_bytes(b"syntax")
    with pytest.raises(SchemaError, match="not a descriptor set"):
        schema_in_set(path)
    path.write_bytes(b"")
    with pytest.raises(SchemaError, match="is empty"):
        schema_in_set(path)
    lone = FileDescriptorProto(name="a.proto", dependency=["nyc/airport.proto"]).SerializeToString()
    path.write_bytes(b"\x0a" + bytes([len(lone)]) + lone)
    with pytest.raises(SchemaError, match=r"imports nyc/airport.proto, which is not among"):
        schema_in_set(path)
    with pytest.raises(SchemaError, match=r"no message nyc.Fly, only nyc.Gate, nyc.Flight"):
        schema_in_set(descriptor_set).path_of("nyc.Fly")
    with pytest.raises(SchemaError, match="not among the schemas"):
        ProtobufCodec.of({7: Flight}, write_id=8)


def test_a_value_is_edited_as_json() -> None:
    """Unchanged it stays the same bytes, however its writer has ordered them."""
    original = HEADER + b"\x18\x05\x0a\x02UA\x52\x04\x08\x02\x12\x00\x52\x04\x08\x01\x12\x00"
    form = editable(CODEC, original)
    assert json.loads(form.text)["distance"] == "5"
    assert json.loads(form.text)["fares"] == []
    assert form.encode(form.text) == original
    changed: Any = CODEC.decode(form.encode(form.text.replace("UA", "AA")))
    assert changed.carrier == "AA"
    assert changed.distance == 5
    assert dict(changed.seats) == {1: "", 2: ""}
    for wrong in ("{", '{"carrier": 1}', '{"carier": ""}', "[]", '{"distance": "9223372036854775808"}'):
        with pytest.raises(EncodeError):
            form.encode(wrong)


def test_a_message_with_nan_is_edited() -> None:
    """A NaN is not equal to itself, but the same bytes."""
    original = CODEC.encode({"carrier": "UA", "fares": [math.nan]}) or b""
    form = editable(CODEC, original)
    assert form.encode(form.text) == original
    assert form.encode(form.text.replace("UA", "AA")) == original.replace(b"UA", b"AA")


def test_a_default_that_was_written_is_not_written_again() -> None:
    """An edited message is equal, but for the edit; only an unchanged one has the same bytes."""
    original = UNITED + b"\x18\x00"
    form = editable(CODEC, original)
    assert form.encode(form.text) == original
    assert form.encode(form.text.replace("UA", "AA")) == UNITED.replace(b"UA", b"AA")


def test_a_message_within_any_is_edited(descriptor_set: Path) -> None:
    """Its type is another one of the same schema."""
    boxed = DescriptorProto(name="Box")
    boxed.field.add(name="item", number=1, type="TYPE_MESSAGE", type_name=".google.protobuf.Any")
    item = DescriptorProto(name="Item")
    item.field.add(name="name", number=1, type="TYPE_STRING")
    box = FileDescriptorProto(
        name="box.proto", package="nyc", syntax="proto3",
        dependency=["google/protobuf/any.proto"], message_type=[boxed, item],
    )  # fmt: skip
    descriptor_set.write_bytes(FileDescriptorSet(file=[box]).SerializeToString())
    content = any_pb2.Any(type_url="type.googleapis.com/nyc.Item", value=b"\x0a\x02A1").SerializeToString()
    original = b"\0\0\0\0\x07\0\x0a" + bytes([len(content)]) + content
    form = editable(ProtobufCodec.of({7: descriptor_set}), original)
    assert json.loads(form.text)["item"] == {"@type": "type.googleapis.com/nyc.Item", "name": "A1"}
    assert form.encode(form.text) == original
    assert form.encode(form.text.replace("A1", "B2")) == original.replace(b"A1", b"B2")


def test_unknown_fields_are_kept_but_not_edited() -> None:
    """A handler passes them on. JSON would lose them, so the value is not edited."""
    data = UNITED + UNKNOWN_FIELD
    assert CODEC.encode(CODEC.decode(data)) == data
    with pytest.raises(NotIdenticalError, match="fields that its schema does not know"):
        editable(CODEC, data)


_INT64 = st.integers(-(2**63), 2**63 - 1)
_LEGS: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "to": st.fixed_dictionaries({"code": st.text(max_size=3)}),
            "delay": _INT64,
            "more": st.lists(_LEGS, max_size=2),
        },
    )
)
_CREW: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"captain": st.text(max_size=3)}),
    st.fixed_dictionaries({"gate": st.fixed_dictionaries({"name": st.text(max_size=3)})}),
)
_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "carrier": st.text(max_size=3),
        "number": st.integers(-(2**31), 2**31 - 1),
        "distance": _INT64,
        "serial": st.integers(0, 2**64 - 1),
        "tag": st.binary(max_size=3),
        "state": st.sampled_from(["PLANNED", "GONE", 7]),
        "leg": _LEGS,
        "fares": st.lists(st.floats(allow_nan=False), max_size=2),
        "legs": st.dictionaries(st.text(max_size=2), _LEGS, max_size=2),
        "seats": st.dictionaries(_INT64, st.text(max_size=2), max_size=2),
        "gone_at": st.datetimes(timezones=st.just(UTC)),
        "extra": st.dictionaries(st.text(max_size=2), st.none() | st.booleans() | st.text(max_size=2), max_size=2),
    },
)
_UNKNOWN = st.lists(st.integers(100, 2**29 - 1).map(lambda n: _varint(n << 3) + b"\x05"), max_size=2).map(b"".join)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


@settings(max_examples=40)
@given(_FIELDS, _CREW, _UNKNOWN)
def test_what_is_encoded_again_decodes_to_the_same(fields: dict[str, Any], crew: dict[str, Any], more: bytes) -> None:
    """Presence, the member of a oneof, maps, 64-bit numbers and unknown fields survive; plain values, too."""
    first = CODEC.decode((CODEC.encode({**fields, **crew}) or b"") + more)
    again = CODEC.decode(CODEC.encode(first))
    assert again == first
    assert first is not None
    from_plain: Any = CODEC.decode(CODEC.encode(plain(first)))
    known = type(first).FromString(first.SerializeToString())
    known.DiscardUnknownFields()
    assert from_plain == known
    if not more:
        form = editable(CODEC, CODEC.encode(first) or b"")
        assert CODEC.decode(form.encode(form.text)) == first


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """No other error is raised because of the bytes."""
    for each in (data, HEADER[:5] + data, HEADER + data):
        try:
            CODEC.decode(each)
        except DecodeError:
            continue


def test_a_header_is_that_of_the_registry() -> None:
    """The prefix is the id in four bytes."""
    assert struct.unpack(">BI", UNITED[:5]) == (0, 7)


def test_a_schema_without_messages_writes_nothing(tmp_path: Path) -> None:
    """It is a fault of the schema, which the error says."""
    path = tmp_path / "empty.desc"
    path.write_bytes(FileDescriptorSet(file=[FileDescriptorProto(name="empty.proto")]).SerializeToString())
    with pytest.raises(EncodeError, match=r"empty\.proto: has no message") as caught:
        ProtobufCodec.of({7: path}).encode({"carrier": "UA"})
    assert caught.value.code == EncodeCode.BAD_SCHEMA
