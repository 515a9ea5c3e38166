"""Protobuf and JSON Schema with a registry on loopback, written and read by the real Confluent clients."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaSourceUnavailable,
)
from tests.unit.serdes.flights import AIRPORT, FLIGHT, HEADER, Flight, registered

if TYPE_CHECKING:
    from kafka_redelivery.serdes.codec import Codec
    from kafka_redelivery.topology.config.settings import SerdeFormat
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
