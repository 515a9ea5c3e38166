"""Every schema that Java's Avro accepts is accepted, with the same names, logical types and defaults."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import read_json, schema_of
from kafka_redelivery.serdes.avro_types import LOGICAL
from kafka_redelivery.serdes.errors import DecodeError, SchemaError
from tests.every import every
from tests.parity.recordings import Case, cases

SCHEMAS = cases("avro_schemas.json", "schemas")

NUMBERS_OR_BYTES = {"timestamp-nanos", "local-timestamp-nanos", "duration", "big-decimal", "uuid of fixed"}
"""Cases of logical types that fastavro does not know, so that their values are numbers or bytes."""

LENIENT = {
    # Java refuses comments after the schema, and a comment without an end.
    *("line comment", "line comment at the end without a line break", "comment without end"),
    # Its version 1.12.0 accepts it.
    "recursion through the null namespace",
    # Python's JSON has it.
    "NaN",
    # fastavro does not look at them, and they do no harm.
    *("name with a dash", "field with a dash", "primitive as a name", "aliases as a text", "record without fields"),
    *("field twice", "union in a union", "type twice in a union", "logical types of one type in a union"),
}
"""Schemas that are accepted although Java refuses them."""

OTHER_DEFAULTS = {
    "default: union of bytes and string": "0204c480",
    "default: union int long": "02808080808040",
    "default: union of int and double": "02000000000000e03f",
    "default: union of two records": "0202",
    "default: decimal default of no bytes": "0200",
}
"""Java writes other values of these unions, or fails, since it takes the first branch of the same JSON type. A decimal
of no bytes is 0, which is written as one byte."""

NO_DEFAULTS = {
    *("default: bytes beyond", "default: fixed too short", "default: float too large", "default: enum unknown"),
    "default: decimal default as text",
}
"""Defaults that are no values of their types. Java accepts them, and then fails or writes another value."""


@every([(case,) for case in SCHEMAS if "error" not in case["java"]])
def test_what_java_accepts_means_the_same(case: Case) -> None:
    """Full names, the order of definitions, and which logical types are valid."""
    schema = schema_of(read_json(case["schema"].encode(), "a"), "a")
    assert schema.canonical == case["java"]["canonical"]
    logical = list(logical_types(schema.parsed.type))
    assert logical == ([] if case["id"] in NUMBERS_OR_BYTES else case["java"]["logical"])


@every([(case,) for case in SCHEMAS if "error" in case["java"]])
def test_what_java_refuses_is_refused(case: Case) -> None:
    """Except for what does no harm."""
    try:
        schema_of(read_json(case["schema"].encode(), "a"), "a")
    except SchemaError:
        assert case["id"] not in LENIENT
    else:
        assert case["id"] in LENIENT


@every([(case,) for case in SCHEMAS if "defaults" in case["java"]])
def test_a_default_is_written_as_by_java(case: Case) -> None:
    """Both one that a handler leaves out, and one that it has got from the reader schema and sends on."""
    schema = read_json(case["schema"].encode(), "a")
    assert isinstance(schema, dict)
    older = {**schema, "fields": [each for each in schema["fields"] if "default" not in each]}
    value = {each["name"]: {"n": 1} for each in older["fields"]}
    body = AvroCodec.of({7: older}).encode(value)
    codec = AvroCodec.of({7: older, 8: schema}, reader=schema, write_id=8)
    if case["id"] in NO_DEFAULTS:
        with pytest.raises(DecodeError, match="No default value"):
            codec.decode(body)
        return
    expected = OTHER_DEFAULTS.get(case["id"]) or "".join(case["java"]["defaults"].values())
    assert body is not None
    data = b"\0\0\0\0\x08" + body[5:] + bytes.fromhex(expected)
    assert codec.encode(value) == data
    if case["id"] != "default: union of map and record":  # a dict may be either
        assert codec.encode(codec.decode(body)) == data


def logical_types(schema: Any) -> Iterator[str]:  # noqa: ANN401 - a schema is a dict, a list or a str
    """Yield the logical types of a parsed schema, in its order."""
    if isinstance(schema, list):
        for each in schema:
            yield from logical_types(each)
    if isinstance(schema, dict):
        if LOGICAL in schema:
            yield schema[LOGICAL].partition("-")[2]
        elif schema.get("logicalType") == "decimal":
            yield "decimal"
        parts = [each["type"] for each in schema.get("fields", ())]
        yield from logical_types([*parts, schema.get("items"), schema.get("values")])
