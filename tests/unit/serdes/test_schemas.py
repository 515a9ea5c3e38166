from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import JsonSchema, full_name, schema_of
from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import SchemaError, UnknownSchemaError
from kafka_redelivery.serdes.schemas import LocalSchemas, schema_in_file

AIRPORT = {"type": "record", "name": "Airport", "namespace": "geo", "fields": [{"name": "code", "type": "string"}]}


def flight(*types: object, **more: object) -> dict[str, Any]:
    """A record ``nyc.Flight`` with a field ``f0``, ``f1``, ... of each type."""
    fields = [{"name": f"f{number}", "type": one} for number, one in enumerate(types)]
    return {"type": "record", "name": "Flight", "namespace": "nyc", "fields": fields, **more}


def doubling(levels: int) -> JsonSchema:
    """A schema in which the default of each record has two of the next one."""
    inner: dict[str, Any] = {"type": "record", "name": f"R{levels}", "fields": []}
    for level in reversed(range(levels)):
        first = {"name": "a", "type": inner, "default": {}}
        second = {"name": "b", "type": inner["name"], "default": {}}
        inner = {"type": "record", "name": f"R{level}", "fields": [first, second]}
    return inner


def saved(folder: Path, name: str, schema: object) -> Path:
    """Save a schema as ``name.avsc``."""
    path = folder / f"{name}.avsc"
    path.write_text(json.dumps(schema), encoding="utf-8")
    return path


def test_a_schema_is_parsed_once(tmp_path: Path) -> None:
    """Every record of an id meets the same parsed schema."""
    source = LocalSchemas({1: saved(tmp_path, "flight", flight("int")), 2: "string"})
    assert source.by_id(1) is source.by_id(1)
    assert source.by_id(1).name == "nyc.Flight"
    assert source.by_id(2).name == "string"


def test_an_id_nobody_gave_is_unknown() -> None:
    """The error tells the id."""
    with pytest.raises(UnknownSchemaError, match="id 3"):
        LocalSchemas({1: "string"}).by_id(3)


def test_the_id_of_a_schema_is_found_by_what_it_writes() -> None:
    """Documentation and order of attributes do not matter; of several ids the smallest is taken."""
    source = LocalSchemas({9: flight("int"), 4: flight("int", doc="the same bytes"), 1: flight("long")})
    assert source.id_for("any", schema_of(flight("int"), "test")) == 4
    with pytest.raises(UnknownSchemaError, match=r"nyc\.Flight"):
        source.id_for("any", schema_of(flight("double"), "test"))


@pytest.mark.parametrize("schema_id", [-1, 2**32])
def test_an_id_that_does_not_fit_the_wire_format_is_refused(schema_id: int) -> None:
    """Four bytes hold it or nothing does."""
    with pytest.raises(SchemaError, match=str(schema_id)):
        LocalSchemas({schema_id: "string"})


def both(schemas: dict[int, JsonSchema | Path]) -> AvroCodec:
    """A codec that knows the schemas and writes the first."""
    return AvroCodec(LocalSchemas(schemas), write_id=1)


def test_a_named_type_is_found_among_the_other_schemas(tmp_path: Path) -> None:
    """A schema may name types that another id's file defines, several times and through each other."""
    gate = {"type": "record", "name": "geo.Gate", "fields": [{"name": "at", "type": "Airport"}]}
    codec = both(
        {
            1: saved(tmp_path, "a", flight("geo.Gate", "geo.Airport", ["null", "geo.Gate"])),
            2: saved(tmp_path, "b", AIRPORT),
            3: saved(tmp_path, "c", gate),
        }
    )
    jfk = {"code": "JFK"}
    value = {"f0": {"at": jfk}, "f1": jfk, "f2": {"at": jfk}}
    assert codec.decode(codec.encode(value)) == value


def test_a_named_type_is_found_in_the_file_of_its_name(tmp_path: Path) -> None:
    """A type without an id of its own lies beside the file that names it."""
    saved(tmp_path, "geo.Airport", AIRPORT)
    codec = both({1: saved(tmp_path, "flight", flight({"type": "array", "items": "geo.Airport"}))})
    value = {"f0": [{"code": "JFK"}]}
    assert codec.decode(codec.encode(value)) == value
    assert (
        schema_in_file(tmp_path / "flight.avsc").canonical
        == LocalSchemas({1: tmp_path / "flight.avsc"}).by_id(1).canonical
    )


def test_a_type_of_the_null_namespace_is_named_from_another_one(tmp_path: Path) -> None:
    """From its own file, among the other schemas or within the schema, and its records can be edited."""
    airport = {"type": "record", "name": "Airport", "fields": [{"name": "code", "type": "string"}]}
    saved(tmp_path, "Airport", airport)
    value = {"f0": {"code": "JFK"}, "f1": {"code": "EWR"}}
    for codec in (
        both({1: saved(tmp_path, "flight", flight("Airport", {"type": "Airport"}))}),
        both({1: flight("Airport", "Airport"), 2: airport}),
        both({1: flight({**airport, "namespace": ""}, "Airport")}),
    ):
        data = codec.encode(value)
        assert data is not None
        assert codec.decode(data) == value
        text = editable(codec, data)
        assert json.loads(text.text) == value
        assert text.encode(text.text) == data


def test_types_that_name_each_other_are_one_recursive_type(tmp_path: Path) -> None:
    """Files may refer to each other both ways, and to themselves."""
    saved(
        tmp_path,
        "nyc.Node",
        {"type": "record", "name": "nyc.Node", "fields": [{"name": "up", "type": ["null", "Flight"]}]},
    )
    codec = both({1: saved(tmp_path, "nyc.Flight", flight(["null", "Node"], {"type": "map", "values": "Flight"}))})
    value: dict[str, Any] = {"f0": {"up": {"f0": None, "f1": {}}}, "f1": {"x": {"f0": None, "f1": {}}}}
    assert codec.decode(codec.encode(value)) == value


def test_two_versions_of_a_named_type_are_not_guessed_between(tmp_path: Path) -> None:
    """Which of two is meant must be said: the error names both and the file to write."""
    newer = {**AIRPORT, "fields": []}
    schemas = {
        1: saved(tmp_path, "a", flight("geo.Airport")),
        2: saved(tmp_path, "b", AIRPORT),
        3: saved(tmp_path, "c", newer),
    }
    with pytest.raises(SchemaError, match=r"b\.avsc, .*c\.avsc.* geo\.Airport\.avsc") as caught:
        LocalSchemas(schemas)
    assert caught.value.location.endswith("a.avsc")
    saved(tmp_path, "geo.Airport", newer)
    assert '"geo.Airport","type":"record","fields":[]' in LocalSchemas(schemas).by_id(1).canonical


def test_the_same_type_given_twice_is_one() -> None:
    """Two ids of one definition leave nothing to guess."""
    source = LocalSchemas({1: flight("geo.Airport"), 2: AIRPORT, 3: AIRPORT})
    assert '"geo.Airport"' in source.by_id(1).canonical


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("geo.Airport", "geo.Airport, which no schema defines"),
        (flight("Missing"), "nyc.Missing, which no schema defines"),
        (flight({"type": "Missing"}), "nyc.Missing, which no schema defines"),
        ({"type": "record", "fields": []}, "not a usable Avro schema"),
        ({"name": "R"}, "not a usable Avro schema"),
        ({"type": "record", "name": "R", "fields": [{"name": "f"}]}, "not a usable Avro schema"),
        ({"type": "record", "name": "R", "fields": ["f"]}, "not a usable Avro schema"),
        ({"type": "array"}, "not a usable Avro schema"),
        ({"type": "fixed", "name": "F", "size": "4"}, "number of bytes"),
        ({"type": "fixed", "name": "F", "size": -4}, "number of bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10**9}, "precision"),
        (flight("int", AIRPORT, {**AIRPORT, "fields": []}), "redefined"),
        (
            flight(fields=[{"name": "f", "type": "int", "default": "x"}]),
            "default of f in nyc.Flight needs a number",
        ),
        (doubling(40), "more than 100000 values"),
        (17, "not a usable Avro schema"),
        (None, "not a usable Avro schema"),
    ],
    ids=str,
)
def test_a_bad_schema_is_told_with_its_file(tmp_path: Path, schema: object, reason: str) -> None:
    """Whoever wrote the file learns which one it is and what is wrong with it."""
    path = saved(tmp_path, "broken", schema)
    with pytest.raises(SchemaError, match=reason) as caught:
        LocalSchemas({1: path})
    assert caught.value.location == str(path)


@pytest.mark.parametrize("text", ["", "{", "\xff", '{"type": "int"} x', "[" * 100_000])
def test_a_file_that_is_not_json_is_told_by_its_name(tmp_path: Path, text: str) -> None:
    """JSON faults are told apart from Avro's."""
    path = tmp_path / "broken.avsc"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(SchemaError, match="JSON") as caught:
        LocalSchemas({1: path})
    assert caught.value.location == str(path)


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    """A wrong path is one clear line."""
    with pytest.raises(SchemaError, match=r"gone\.avsc: cannot be read: No such file"):
        schema_in_file(tmp_path / "gone.avsc")


def test_a_definition_of_another_name_is_not_taken(tmp_path: Path) -> None:
    """A file named after a type, but defining another one, does not stand in for it."""
    saved(tmp_path, "geo.Airport", {**AIRPORT, "namespace": "elsewhere"})
    with pytest.raises(SchemaError, match=r"geo\.Airport, which no schema defines"):
        schema_in_file(saved(tmp_path, "flight", flight("geo.Airport")))


def test_a_schema_nested_too_deep_is_refused() -> None:
    """What the parser cannot hold on its stack is an error like any other."""
    schema: JsonSchema = "int"
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaError, match="deep"):
        schema_of(schema, "test")


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("int", "int"),
        (["null", "int"], "union"),
        ({"type": "array", "items": "int"}, "array"),
        ({"type": "enum", "name": "E", "symbols": []}, "E"),
        ({"type": "enum", "name": "a.E", "namespace": "b", "symbols": []}, "a.E"),
        ({"type": "enum", "name": "E", "namespace": "b", "symbols": []}, "b.E"),
    ],
    ids=str,
)
def test_full_names_follow_the_specification(schema: JsonSchema, name: str) -> None:
    """A dot makes a name full; otherwise its namespace completes it."""
    assert full_name(schema) == name


def test_the_schema_given_is_not_changed() -> None:
    """Callers keep what they hand in."""
    before = json.dumps(flight("geo.Airport"))
    given = json.loads(before)
    LocalSchemas({1: given, 2: AIRPORT})
    assert json.dumps(given) == before
