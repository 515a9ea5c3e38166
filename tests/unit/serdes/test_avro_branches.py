"""A decoded Avro value that is encoded again becomes the same value, or is refused with the place and the branches."""

from __future__ import annotations

import copy
import pickle
import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import IO, Any
from uuid import UUID

import fastavro
import fastavro.write
import pytest
from hypothesis import given

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_branches import AvroRecord
from kafka_redelivery.serdes.avro_schema import JsonSchema
from kafka_redelivery.serdes.errors import EncodeCode, EncodeError
from tests.unit.serdes.any_avro import (
    DATE,
    LOCAL,
    MICROS,
    MILLIS,
    TIME_MICROS,
    TIME_MILLIS,
    UUID_TEXT,
    encoded,
    same,
    text,
)
from tests.unit.serdes.test_avro import codec, framed, record
from tests.unit.serdes.test_avro_hostile import varint
from tests.unit.serdes.test_editing import DECIMAL, FIXED_DECIMAL, logical

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}
INTS = {"type": "array", "items": "int"}
CREATED, DELETED = record(("id", "int"), name="Created"), record(("id", "int"), name="Deleted")
DEFAULTED = record(("id", "int"), ("why", "string", "?"), name="Defaulted")
CREATED_AT = record(("at", "int"), name="CreatedAt")
NOON = datetime(2026, 11, 28, 12, 0, 0, 123_000, tzinfo=UTC)


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
        (["double", "long"], None, "$.v: a value of class NoneType fits no branch of the union: double, long"),
        ([CREATED, DELETED], {"id": 7}, "Created, Deleted; name the one that is meant: ('Created', value)"),
        ([CREATED, DELETED], {"id": 7, "more": 1}, "fits no branch"),
        ([CREATED, {"type": "map", "values": "int"}], {"id": 7}, "Created, map"),
        (["int", "float"], 2**60 + 1, "fits no branch"),
        (["float", "string", "int"], 1e300, "fits no branch"),
        ([DECIMAL, FIXED], Decimal("NaN"), "fits no branch"),
    ],
)
def test_refused(union: list[Any], value: object, problem: str) -> None:
    """What fits several branches, of which the value tells none, or fits none."""
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
        ([UUID_TEXT, ENUM], "neither", "neither"),
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
        ([CREATED, DELETED], ("Deleted", {"id": 7}), AvroRecord("Deleted", {"id": 7})),
        ([CREATED, DELETED], AvroRecord("Other", {"id": 7}), EncodeError),
        ([CREATED, record(("id", "int"), ("why", "string", ""), name="Deleted")], {"id": 7}, {"id": 7}),
        (
            [CREATED, record(("id", "string"), name="Deleted")],
            MappingProxyType({"id": "7"}),
            AvroRecord("Deleted", {"id": "7"}),
        ),
        ([DEFAULTED, CREATED_AT], {"id": 7}, {"id": 7, "why": "?"}),
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
    assert both.encode({"u": value["u"][1]}) == both.encode(value)


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
    both = codec([CREATED, CREATED_AT])
    assert type(both.decode(framed(varint(1) + varint(7)))) is dict


def test_many_ways_take_no_time() -> None:
    """The fit of a record is looked up once, not for each way through the unions that leads to it."""
    deleted = record(("next", ["null", "Created", "Deleted"]), name="Deleted")
    both = codec([record(("next", ["null", "Created", deleted]), name="Created"), "Deleted"])
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
        both.encode(2.5)


def test_an_unknown_logical_type_is_that_of_its_numbers() -> None:
    """As the specification wants it."""
    both = codec([logical("int", "weeks"), "double"])
    assert same(both.decode(both.encode(5)), 5)


@pytest.mark.parametrize("schema", [["null", "string"], ["string", "int"], ["null", INTS, "string", CREATED], FIXED])
def test_a_schema_without_choices_costs_nothing(schema: JsonSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are passed on as they are."""
    seen: list[dict[str, object]] = []

    def write(stream: IO[bytes], parsed: JsonSchema, value: dict[str, object], **options: bool) -> None:
        seen.append(value)
        fastavro.schemaless_writer(stream, parsed, value, **options)

    monkeypatch.setattr("kafka_redelivery.serdes.avro_types.schemaless_writer", write)
    value = b"abcd" if schema is FIXED else "abcd"
    codec(schema).encode(value)
    assert seen[0] == {"": value}
    assert next(iter(seen[0].values())) is value


@given(encoded())
def test_any_decoded_value_becomes_the_same_value_again(case: tuple[JsonSchema, bytes]) -> None:
    """Of any schema. Only a dict that may be a map or a record is refused, and a number that may be several moments."""
    schema, body = case
    both: AvroCodec = codec(schema)
    value = both.decode(framed(body))
    try:
        again = both.encode(value)
    except EncodeError as error:
        if "several branches of the union" in error.reason and ("map" in error.reason or "class int" in error.reason):
            return
        raise
    found = both.decode(again)
    assert same(found, value), found
