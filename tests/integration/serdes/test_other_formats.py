"""Protobuf and JSON Schema with a registry on loopback, written and read by the real Confluent clients."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import Deserializer, MessageField, SerializationContext, Serializer
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaSourceUnavailable,
)
from kafka_redelivery.serdes.framing import names_schemas
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.topology.config.settings import SerdeFormat
from tests.unit.serdes.flights import AIRPORT, FLIGHT, HEADER, Flight, registered

if TYPE_CHECKING:
    from kafka_redelivery.serdes.codec import Codec
    from tests.unit.serdes.conftest import Registry

AIRPORT_REFERENCE = {"name": "nyc/airport.proto", "subject": "nyc/airport.proto", "version": 1}
SCHEMA = {"title": "Flight", "type": "object", "properties": {"to": {"$ref": "code.json"}}, "required": ["to"]}
CODE_REFERENCE = {"name": "code.json", "subject": "code", "version": 1}
VALUE = SerializationContext("flights", MessageField.VALUE)
BY_TOPIC = {"auto.register.schemas": False, "subject.name.strategy.type": "TOPIC"}
LATEST = BY_TOPIC | {"use.latest.version": True}


def add_protobuf(registry: Registry) -> None:
    """Register the schema of flights, and that of airports, to which it refers."""
    registry.add(6, registered(AIRPORT), "nyc/airport.proto", schemaType="PROTOBUF")
    registry.add(7, registered(FLIGHT), schemaType="PROTOBUF", references=[AIRPORT_REFERENCE])


def add_json(registry: Registry) -> None:
    """Register a JSON Schema with a reference."""
    registry.add(6, {"type": "string", "maxLength": 3}, "code", schemaType="JSON")
    registry.add(7, SCHEMA, schemaType="JSON", references=[CODE_REFERENCE])


def codec(registry: Registry, format_: SerdeFormat, **more: Any) -> Codec:  # noqa: ANN401 - settings
    """A codec that gives up at once."""
    return build_codec(SerdeSettings(format_, registry={"url": registry.url, "max.retries": 0}, **more))


@pytest.mark.parametrize("config", [BY_TOPIC, LATEST], ids=["looked_up", "latest"])
def test_protobuf_of_the_confluent_client(registry: Registry, config: dict[str, Any]) -> None:
    """Each reads what the other has written, with references and indexes, byte for byte the same."""
    add_protobuf(registry)
    client = SchemaRegistryClient({"url": registry.url})
    flight = Flight(carrier="UA", leg={"to": {"code": "EWR"}})
    theirs = ProtobufSerializer(Flight, client, config)(flight, VALUE)
    ours = codec(registry, "protobuf", subject="flights-value", message="nyc.Flight")
    assert theirs == ours.encode(flight) == ours.encode({"carrier": "UA", "leg": {"to": {"code": "EWR"}}})
    found: Any = ours.decode(theirs)
    assert found.SerializeToString() == flight.SerializeToString()
    reader = ProtobufDeserializer(Flight, {"subject.name.strategy.type": "TOPIC"}, client)
    assert reader(ours.encode(flight), VALUE) == flight


def test_json_schema_of_the_confluent_client(registry: Registry) -> None:
    """Each reads what the other has written."""
    add_json(registry)
    client = SchemaRegistryClient({"url": registry.url})
    theirs = JSONSerializer(None, client, conf=LATEST)({"to": "EWR"}, VALUE)
    ours = codec(registry, "jsonschema", subject="flights-value")
    assert ours.decode(theirs) == {"to": "EWR"}
    reader = JSONDeserializer(None, schema_registry_client=client, conf={"subject.name.strategy.type": "TOPIC"})
    assert reader(ours.encode({"to": "EWR"}), VALUE) == {"to": "EWR"}
    with pytest.raises(DecodeError, match="too long"):
        ours.decode(b"\0\0\0\0\x07" + json.dumps({"to": "Newark"}).encode())


def _header_of(registry: Registry, format_: str, *, in_header: bool) -> tuple[Serializer, Deserializer, Any]:
    """The Confluent client's serdes for a flight to EWR, and the flight."""
    client = SchemaRegistryClient({"url": registry.url})
    writes: dict[str, Any] = LATEST | ({"schema.id.serializer": header_schema_id_serializer} if in_header else {})
    reads: dict[str, Any] = {"subject.name.strategy.type": "TOPIC"}
    if format_ == "protobuf":
        add_protobuf(registry)
        value = Flight(carrier="UA", leg={"to": {"code": "EWR"}})
        return ProtobufSerializer(Flight, client, writes), ProtobufDeserializer(Flight, reads, client), value
    if format_ == "jsonschema":
        add_json(registry)
        reader = JSONDeserializer(None, schema_registry_client=client, conf=reads)
        return JSONSerializer(None, client, conf=writes), reader, {"to": "EWR"}
    fields = [{"name": "carrier", "type": "string"}, {"name": "to", "type": "string"}]
    registry.add(7, {"type": "record", "name": "Flight", "fields": fields})
    # The client's deserializer refuses an Avro value of five bytes or fewer, also without a prefix. Ours does not.
    return (
        AvroSerializer(client, None, conf=writes),
        AvroDeserializer(client, None, conf=reads),
        {"carrier": "United", "to": "EWR"},
    )


FORMATS: list[SerdeFormat] = ["avro", "protobuf", "jsonschema"]


@pytest.mark.parametrize("has_guids", [True, False], ids=["guid", "id"])
@pytest.mark.parametrize("format_", FORMATS)
def test_schema_ids_in_headers(registry: Registry, format_: SerdeFormat, *, has_guids: bool) -> None:
    """Each reads what the other has written. A registry without GUIDs has its id in the header."""
    registry.has_guids = has_guids
    writer, reader, value = _header_of(registry, format_, in_header=True)
    ours = codec(registry, format_, subject="flights-value", schema_id="header", **_named(format_))
    assert names_schemas(ours)
    data = ours.encode(value)
    assert ours.written_header is not None
    context = SerializationContext("flights", MessageField.VALUE, [("__value_schema_id", ours.written_header)])
    assert reader(data, context) == value
    assert plain(ours.decode(data, ours.written_header)) == plain(value)
    if has_guids:
        headers: list[tuple[str, Any]] = []
        theirs = writer(value, SerializationContext("flights", MessageField.VALUE, headers))
        assert (theirs, headers) == (data, [("__value_schema_id", ours.written_header)])
        by_number = codec(registry, format_, write_id=7, schema_id="header", **_named(format_))
        assert names_schemas(by_number)
        assert by_number.encode(value) == data
        assert by_number.written_header == ours.written_header


def _named(format_: str) -> dict[str, str]:
    return {"message": "nyc.Flight"} if format_ == "protobuf" else {}


@pytest.mark.parametrize("format_", FORMATS)
def test_of_a_header_and_a_prefix_only_the_header_counts(registry: Registry, format_: SerdeFormat) -> None:
    """The Confluent client takes the whole value for what follows the id, and so do we: neither can read the prefix."""
    writer, reader, value = _header_of(registry, format_, in_header=False)
    framed = writer(value, VALUE)
    header = b"\1" + bytes(15) + b"\7" + (b"\2\2" if format_ == "protobuf" else b"")
    context = SerializationContext("flights", MessageField.VALUE, [("__value_schema_id", header)])
    ours = codec(registry, format_)
    assert names_schemas(ours)
    with pytest.raises(DecodeError):
        ours.decode(framed, header)
    try:
        theirs = reader(framed, context)
    except Exception as error:  # noqa: BLE001 - each of the client's deserializers has errors of its own
        theirs = error
    assert theirs != value
    assert plain(ours.decode(framed)) == plain(value)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"", DecodeCode.TRUNCATED),
        (b"\1" + bytes(15), DecodeCode.TRUNCATED),
        (b"\0\0\0", DecodeCode.TRUNCATED),
        (b"\2" + bytes(16), DecodeCode.BAD_MAGIC),
        (b"\1" + bytes(15) + b"\x09\0", DecodeCode.UNKNOWN_SCHEMA),
        (b"\0\0\0\0\x09\0", DecodeCode.UNKNOWN_SCHEMA),
    ],
)
def test_a_faulty_header(registry: Registry, format_: SerdeFormat, header: bytes, code: DecodeCode) -> None:
    """The record is undecodable, with the reason."""
    ours = codec(registry, format_)
    assert names_schemas(ours)
    with pytest.raises(DecodeError) as caught:
        ours.decode(b"{}", header)
    assert caught.value.code == code


@pytest.mark.parametrize("format_", FORMATS)
def test_an_edited_value_keeps_its_header(registry: Registry, format_: SerdeFormat) -> None:
    """Nothing comes before the value."""
    writer, _, value = _header_of(registry, format_, in_header=True)
    headers: list[tuple[str, Any]] = []
    data = writer(value, SerializationContext("flights", MessageField.VALUE, headers)) or b""
    ours = codec(registry, format_)
    form = editable(ours, data, headers[0][1])
    assert form.encode(form.text) == data
    changed = form.encode(form.text.replace("EWR", "JFK"))
    assert changed == data.replace(b"EWR", b"JFK")


def test_schemas_are_fetched_once(registry: Registry) -> None:
    """With the schemas that they refer to; what every client has is not fetched."""
    add_protobuf(registry)
    ours = codec(registry, "protobuf")
    for _ in range(3):
        ours.decode(HEADER + b"\x0a\x02UA")
    requests = [unquote(request) for request in registry.requests]
    assert requests == ["GET /schemas/ids/7", "GET /subjects/nyc/airport.proto/versions/1"]


@pytest.mark.parametrize("format_", ["protobuf", "jsonschema"])
def test_an_unknown_id_and_a_registry_that_is_away(registry: Registry, format_: SerdeFormat) -> None:
    """The first is the record's fault, the second is not."""
    with pytest.raises(DecodeError) as caught:
        codec(registry, format_).decode(b"\0\0\0\0\x09\0")
    assert caught.value.code == DecodeCode.UNKNOWN_SCHEMA
    with pytest.raises(EncodeError) as refused:
        codec(registry, format_, subject="other").encode({})
    assert refused.value.code == EncodeCode.UNKNOWN_SCHEMA
    registry.instead = 503, b"busy"
    ours = codec(registry, format_, subject="flights-value")
    with pytest.raises(SchemaSourceUnavailable):
        ours.decode(b"\0\0\0\0\x07\0")
    with pytest.raises(SchemaSourceUnavailable):
        ours.encode({})


def test_a_registry_that_only_has_the_text_of_protobuf(registry: Registry) -> None:
    """No record is undecodable because of it: its partition waits, and the error says what the registry lacks."""
    registry.instead = 200, json.dumps({"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}).encode()
    with pytest.raises(SchemaSourceUnavailable, match="format=serialized"):
        codec(registry, "protobuf").decode(b"\0\0\0\0\x07\0")


@pytest.mark.parametrize(
    ("schema", "more", "problem"),
    [
        (FileDescriptorProto(dependency=["nyc/airport.proto"]), {}, "imports nyc/airport.proto"),
        (FileDescriptorProto(dependency=["google/type/nothing.proto"]), {}, "imports google/type/nothing.proto"),
        (FileDescriptorProto(syntax="proto9"), {}, "not a usable Protobuf schema"),
        (FileDescriptorProto(), {"schemaType": "JSON"}, "is a schema for JSON, not for PROTOBUF"),
    ],
)
def test_a_schema_that_cannot_be_used(
    registry: Registry, schema: FileDescriptorProto, more: dict[str, Any], problem: str
) -> None:
    """The record is undecodable, with the reason."""
    registry.add(7, base64.b64encode(schema.SerializeToString()).decode(), **{"schemaType": "PROTOBUF", **more})
    with pytest.raises(DecodeError, match=problem) as caught:
        codec(registry, "protobuf").decode(b"\0\0\0\0\x07\0")
    assert caught.value.code == DecodeCode.BAD_SCHEMA


def test_a_schema_with_googles_types(registry: Registry) -> None:
    """Writers do not register files that every client has."""
    message = FileDescriptorProto(syntax="proto3", dependency=["google/type/money.proto"])
    message.message_type.add(name="Paid").field.add(
        name="price", number=1, label=1, type=11, type_name=".google.type.Money"
    )
    registry.add(7, registered(message), schemaType="PROTOBUF")
    found: Any = codec(registry, "protobuf").decode(b"\0\0\0\0\x07\0\x0a\x05\x0a\x03EUR")
    assert found.price.currency_code == "EUR"
