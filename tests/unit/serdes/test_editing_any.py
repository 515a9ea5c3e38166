"""Text for an editor, of any Avro value: also with unions of many types, and as deep as values may be."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given

from kafka_redelivery.serdes.avro_schema import JsonSchema
from kafka_redelivery.serdes.avro_shape import MAX_DEPTH
from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import NotIdenticalError
from tests.unit.serdes.any_avro import encoded
from tests.unit.serdes.test_avro_hostile import HEADER, array, record, varint
from tests.unit.serdes.test_editing import avro


@given(encoded())
def test_any_bytes_become_the_same_again(case: tuple[JsonSchema, bytes]) -> None:
    """Of any schema; or they are refused before anything is edited."""
    schema, body = case
    codec = avro(schema)
    with suppress(NotIdenticalError):  # such as a NaN of other bits
        text = editable(codec, HEADER + body)
        assert text.encode(json.dumps(json.loads(text.text))) == HEADER + body


OTHER = record(name="Other")


@pytest.mark.parametrize(
    ("inner", "step", "end"),
    [
        (["null", "Tree"], b"\x02", b""),
        (["null", OTHER, "Tree"], b"\x04", b""),
        (array("Tree"), varint(1), b"\0"),
        (array(["string", OTHER, "Tree"]), varint(1) + b"\x04", b"\0"),
        ({"type": "map", "values": ["int", "null", "Tree"]}, varint(1) + b"\0\x04", b"\0"),
    ],
    ids=str,
)
def test_the_deepest_value_can_be_edited(inner: JsonSchema, step: bytes, end: bytes) -> None:
    """What can be decoded can be edited, also where each level is a container and a union."""
    data = HEADER + step * MAX_DEPTH + b"\0" + end * MAX_DEPTH
    text = editable(avro(record(("next", inner), name="Tree")), data)
    assert text.encode(text.text) == data
