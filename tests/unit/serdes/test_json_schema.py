from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError, SchemaError
from kafka_redelivery.serdes.json_schema import JsonDocument, JsonSchemaCodec, validator_of
from kafka_redelivery.serdes.schemas import KnownSchemas

FLIGHT = {
    "type": "object",
    "properties": {"carrier": {"type": "string"}, "on": {"type": "string"}, "legs": {"type": "array"}},
    "required": ["carrier"],
}
CODEC = JsonSchemaCodec.of({7: FLIGHT})
HEADER = b"\0\0\0\0\x07"
UNITED = HEADER + b'{"carrier":"UA"}'


@dataclass
class Flight:
    carrier: str
    on: date


def test_a_document_is_decoded_and_encoded() -> None:
    """The header has the id, and what follows is JSON."""
    assert CODEC.decode(UNITED) == {"carrier": "UA"}
    assert CODEC.encode({"carrier": "UA"}) == UNITED
    assert CODEC.encode(Flight("UA", date(2026, 1, 2))) == HEADER + b'{"carrier":"UA","on":"2026-01-02"}'
    assert CODEC.decode(None) is None
    assert CODEC.encode(None) is None


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"", DecodeCode.TRUNCATED, "0 bytes"),
        (b'{"carrier":"UA"}', DecodeCode.BAD_MAGIC, "byte 123"),
        (b"\0\0\0\0\x08{}", DecodeCode.UNKNOWN_SCHEMA, "schema with id 8"),
        (HEADER + b"{", DecodeCode.NOT_JSON, "line 1"),
        (HEADER + b"\xff", DecodeCode.NOT_UTF8, "utf-8"),
        (HEADER + b"{}", DecodeCode.SCHEMA_MISMATCH, "'carrier' is a required property"),
        (HEADER + b'{"carrier":1}', DecodeCode.SCHEMA_MISMATCH, r"\$\.carrier: 1 is not of type"),
        (HEADER + b"[" * 100_000, DecodeCode.TOO_DEEP, "too deep"),
    ],
)
def test_faulty_bytes(data: bytes, code: DecodeCode, text: str) -> None:
    """Each fault has its code and says what is wrong."""
    with pytest.raises(DecodeError, match=text) as caught:
        CODEC.decode(data)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({}, EncodeCode.SCHEMA_MISMATCH),
        ({"carrier": object()}, EncodeCode.NOT_JSON),
        ({"carrier": float("nan")}, EncodeCode.NOT_JSON),
    ],
)
def test_values_that_do_not_fit(value: object, code: EncodeCode) -> None:
    """JSON that is not valid is not written."""
    with pytest.raises(EncodeError) as caught:
        CODEC.encode(value)
    assert caught.value.code == code


def test_a_codec_without_a_write_schema_only_decodes() -> None:
    """As of a source."""
    with pytest.raises(EncodeError) as caught:
        JsonSchemaCodec.of({7: FLIGHT, 8: {}}).encode({})
    assert caught.value.code == EncodeCode.NO_WRITE_SCHEMA


def test_a_long_fault_is_cut() -> None:
    """A dead letter's cause cannot hold whole values."""
    with pytest.raises(DecodeError) as caught:
        CODEC.decode(HEADER + json.dumps({"carrier": ["x" * 1000]}).encode())
    assert len(caught.value.reason) == 300


def test_schemas_refer_to_each_other(tmp_path: Path) -> None:
    """By the name of the file, and by ``$id``."""
    for name, schema in {
        "code.json": {"$id": "http://nyc/code", "type": "string", "maxLength": 3},
        "by_name.json": {"properties": {"to": {"$ref": "code.json"}}},
        "by_id.json": {"properties": {"to": {"$ref": "http://nyc/code"}}},
    }.items():
        (tmp_path / name).write_text(json.dumps(schema), encoding="utf-8")
    files = {1: tmp_path / "by_name.json", 2: tmp_path / "by_id.json", 3: tmp_path / "code.json"}
    codec = JsonSchemaCodec.of(files)
    for schema_id in (b"\x01", b"\x02"):
        assert codec.decode(b"\0\0\0\0" + schema_id + b'{"to":"EWR"}') == {"to": "EWR"}
        with pytest.raises(DecodeError, match="too long"):
            codec.decode(b"\0\0\0\0" + schema_id + b'{"to":"Newark"}')


ORDER_ID = "http://shop/order.json"


@pytest.mark.parametrize(
    ("order", "more"),
    [
        ({"$id": ORDER_ID}, {}),
        ({"$id": ORDER_ID}, {"$id": "http://shop/common/name.json"}),
        ({}, {"$id": "http://other/name.json"}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "id": ORDER_ID}, {}),
    ],
    ids=["id", "both", "reference", "draft 4"],
)
def test_a_reference_is_relative_to_the_id(order: dict[str, Any], more: dict[str, Any]) -> None:
    """As for Java's clients: ``name.json`` of the registry is ``http://shop/name.json``. References have their own."""
    order = {**order, "properties": {"name": {"$ref": "name.json"}}}
    references: dict[str, JsonDocument] = {
        "name.json": {**more, "properties": {"first": {"$ref": "part.json"}}},
        "part.json": {"maxLength": 3},
    }
    codec = JsonSchemaCodec(KnownSchemas({7: validator_of(order, references, "order")}))
    assert codec.decode(HEADER + b'{"name": {"first": "Bob"}}') == {"name": {"first": "Bob"}}
    with pytest.raises(DecodeError, match="too long"):
        codec.decode(HEADER + b'{"name": {"first": "Alice"}}')


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("draft", [None, DRAFT_4, DRAFT_2020])
@pytest.mark.parametrize(
    ("keyword", "valid", "wrong"),
    [
        ({"multipleOf": 0.01}, ["19.99", "1e300", "0.07", "1001", "-4.35"], ["19.999", "1e999", "1e-3"]),
        ({"multipleOf": 5}, ["10", "5.0", "1e22"], ["11", "5.5", "1e999"]),
        ({"pattern": r"^\p{L}+$"}, ['"été"', "1"], ['"x1"']),
        ({"pattern": r"^(?<year>[0-9]{4})$"}, ['"2026"'], ['"26"']),
        (
            {"patternProperties": {r"^\p{Lu}": {"type": "null"}, "^x": {}}, "additionalProperties": False},
            ['{"É": null, "x": 1}'],
            ['{"É": 1}', '{"é": null}'],
        ),
    ],
    ids=["decimal", "whole", "letters", "named group", "properties"],
)
def test_decimals_and_patterns(draft: str | None, keyword: dict[str, Any], valid: list[str], wrong: list[str]) -> None:
    """As JSON Schema has them: exact, and of ECMA-262; also in a referenced schema, which may be of another draft."""
    inner = keyword if draft is None else {"$schema": draft, **keyword}
    direct = JsonSchemaCodec.of({7: inner})
    referring = JsonSchemaCodec(KnownSchemas({7: validator_of({"$ref": "inner.json"}, {"inner.json": inner}, "x")}))
    for codec in (direct, referring):
        for each in valid:
            assert codec.decode(HEADER + each.encode()) == json.loads(each)
        for each in wrong:
            with pytest.raises(DecodeError) as caught:
                codec.decode(HEADER + each.encode())
            assert caught.value.code == DecodeCode.SCHEMA_MISMATCH
    assert isinstance(direct.decode(HEADER + valid[0].encode()), type(json.loads(valid[0])))
    assert direct.encode(json.loads(valid[0])) is not None
    with pytest.raises(EncodeError):
        direct.encode(json.loads(wrong[0]))


@pytest.mark.parametrize(
    "fault", [{"pattern": "("}, {"multipleOf": 0}, {"maximum": "x"}, {"unknownType": 1, "type": "x"}]
)
def test_a_faulty_referenced_schema(fault: dict[str, Any]) -> None:
    """It is found when a value needs it, and is a fault of the schema."""
    codec = JsonSchemaCodec(
        KnownSchemas({7: validator_of({"items": {"$ref": "inner.json"}}, {"inner.json": fault}, "x")}), write_id=7
    )
    assert codec.decode(HEADER + b"[]") == []
    value = ["a"] if "pattern" in fault else [1]
    with pytest.raises(DecodeError) as caught:
        codec.decode(HEADER + json.dumps(value).encode())
    assert caught.value.code == DecodeCode.BAD_SCHEMA
    with pytest.raises(EncodeError) as refused:
        codec.encode(value)
    assert refused.value.code == EncodeCode.BAD_SCHEMA


@pytest.mark.parametrize("schema", [{"pattern": "("}, {"$id": "http://["}])
def test_an_expression_or_address_that_nothing_reads(schema: JsonDocument) -> None:
    """It is an error of the schema."""
    with pytest.raises(SchemaError):
        validator_of(schema, {"name.json": {}}, "x")
    with pytest.raises(SchemaError):
        validator_of({"$id": ORDER_ID}, {"name.json": {"$id": 1}}, "x")


def test_a_schema_is_never_fetched_from_its_address() -> None:
    """A reference that nothing resolves makes the schema unusable."""
    codec = JsonSchemaCodec.of({7: {"properties": {"to": {"$ref": "http://127.0.0.1:1/code.json"}}}})
    with pytest.raises(DecodeError) as caught:
        codec.decode(HEADER + b'{"to":"EWR"}')
    assert caught.value.code == DecodeCode.BAD_SCHEMA


def test_a_schema_that_never_ends() -> None:
    """It refers to itself without reading a part of the value."""
    with pytest.raises(DecodeError) as caught:
        JsonSchemaCodec.of({7: {"$ref": "#"}}).decode(HEADER + b"{}")
    assert caught.value.code in {DecodeCode.TOO_DEEP, DecodeCode.BAD_SCHEMA}


def test_faulty_schemas(tmp_path: Path) -> None:
    """A file that is missing or no JSON, a schema of no draft, an id that is not there."""
    path = tmp_path / "flight.json"
    with pytest.raises(SchemaError, match="cannot be read"):
        JsonSchemaCodec.of({7: path})
    path.write_text("{", encoding="utf-8")
    with pytest.raises(SchemaError, match="is not JSON"):
        JsonSchemaCodec.of({7: path})
    path.write_text('{"type": "text"}', encoding="utf-8")
    with pytest.raises(SchemaError, match=r"is not a usable JSON Schema: \$.type"):
        JsonSchemaCodec.of({7: path})
    with pytest.raises(SchemaError, match="not among the schemas"):
        JsonSchemaCodec.of({7: FLIGHT}, write_id=8)


def test_a_value_is_edited_as_json() -> None:
    """Unchanged it stays the same bytes; a change has to be valid."""
    form = editable(CODEC, UNITED)
    assert form.text == '{\n  "carrier": "UA"\n}'
    assert form.encode(form.text) == UNITED
    assert form.encode(form.text.replace("UA", "AA")) == HEADER + b'{"carrier":"AA"}'
    with pytest.raises(EncodeError, match="required property"):
        form.encode("{}")


@pytest.mark.parametrize(
    ("body", "repaired"), [(b'{"carrier":1}', '{"carrier":"UA"}'), (b'{"carrier":', '{"carrier":"UA"}')]
)
def test_what_does_not_fit_its_schema_can_be_repaired(body: bytes, repaired: str) -> None:
    """It has died because of that."""
    form = editable(CODEC, HEADER + body)
    assert form.encode(repaired) == UNITED
    with pytest.raises(EncodeError):
        form.encode(form.text)


def test_what_no_schema_can_check_is_not_edited() -> None:
    """The error comes before the editor opens."""
    with pytest.raises(DecodeError, match="schema with id 8"):
        editable(CODEC, b"\0\0\0\0\x08{}")


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
def test_what_is_encoded_again_decodes_to_the_same(legs: object) -> None:
    """Numbers of any size, too."""
    first = CODEC.decode(HEADER + json.dumps({"carrier": "UA", "legs": [legs]}).encode())
    assert CODEC.decode(CODEC.encode(first)) == first


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """No other error is raised because of the bytes."""
    for each in (data, HEADER + data):
        try:
            CODEC.decode(each)
        except DecodeError:
            continue
