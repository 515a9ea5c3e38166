"""Schema ids in headers: records of the Confluent clients are retried, dead-lettered and sent again byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from typing_extensions import TypedDict

from tests.scenarios.cluster import Pairs, Sent
from tests.scenarios.redriving import dlq
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture
from tests.unit.serdes.flights import registered

pytestmark = pytest.mark.kafka


class Script(TypedDict):
    """What the handler takes, whatever the format."""

    n: int
    do: list[str]


_FILE = FileDescriptorProto(name="script.proto", syntax="proto3")
_MESSAGE = _FILE.message_type.add(name="Script")
_MESSAGE.field.add(name="n", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
_MESSAGE.field.add(name="do", number=2, type=Field.TYPE_STRING, label=Field.LABEL_REPEATED)
_POOL = DescriptorPool()
_POOL.AddSerializedFile(_FILE.SerializeToString())
_Script: Any = GetMessageClass(_POOL.FindMessageTypeByName("Script"))
_AVRO = {
    "type": "record",
    "name": "Script",
    "fields": [{"name": "n", "type": "long"}, {"name": "do", "type": {"type": "array", "items": "string"}}],
}
_FORMATS = ("avro", "protobuf", "jsonschema")


def _sent(serializer: Any, topic: str, value: object) -> Sent:  # noqa: ANN401 - one of the client's
    headers: list[tuple[str, Any]] = [("ce_type", b"script")]
    data = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))
    return Sent(data, b"k", headers, 0)


def _written(group: Group, registry: Registry) -> dict[str, list[Sent]]:  # noqa: F811
    """For each format a record that fails once, and one that dies."""
    client = SchemaRegistryClient({"url": registry.url})
    conf = {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy.type": "TOPIC",
        "schema.id.serializer": header_schema_id_serializer,
    }
    topics = [f"{group.name}.{each}" for each in _FORMATS]
    registry.add(5, _AVRO, f"{topics[0]}-value")
    registry.add(6, registered(_FILE), f"{topics[1]}-value", schemaType="PROTOBUF")
    registry.add(7, {"type": "object", "required": ["n", "do"]}, f"{topics[2]}-value", schemaType="JSON")
    serializers: list[Any] = [
        AvroSerializer(client, None, conf=conf),
        ProtobufSerializer(_Script, client, conf),
        JSONSerializer(None, client, conf=conf),
    ]
    found = {}
    for place, (topic, serializer) in enumerate(zip(topics, serializers, strict=True)):
        values: list[Any] = [{"n": place, "do": ["raise", "ok"]}, {"n": place + 10, "do": ["reject"]}]
        if place == 1:
            values = [_Script(**value) for value in values]
        found[topic] = [_sent(serializer, topic, value) for value in values]
    return found


def _user_headers(headers: Pairs) -> list[tuple[str, bytes | None]]:
    return [each for each in headers if each[0] in {"ce_type", "__value_schema_id"}]


def test_bytes_and_headers_are_those_of_the_source(group: Group, registry: Registry) -> None:  # noqa: F811
    """What was not edited is equal at each step. An edited value keeps the header, and is handled."""
    records = _written(group, registry)
    for topic in records:
        group.cluster.create(topic, partitions=1)
    group.prepare(
        sources=[
            {"topic": topic, "value": {"format": format_, "registry": {"url": registry.url}}}
            for topic, format_ in zip(records, _FORMATS, strict=True)
        ],
        handler={"value": f"{__name__}:Script"},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 0}},
    )
    for topic, sent in records.items():
        group.cluster.produce(topic, sent)
    group.worker()
    until(lambda: group.outputs() == exactly(range(3)), "what failed once is handled")
    letters = {topic: f"DLQ.{topic}" for topic in records}
    until(lambda: all(len(group.cluster.read_written(dead)) == 1 for dead in letters.values()), "three have died")
    for topic, (retried, died) in records.items():
        [copy] = group.cluster.read_written(f"{group.name}.ready.{topic}")
        [letter] = group.cluster.read_written(letters[topic])
        for found, original in ((copy, retried), (letter, died)):
            assert found.value == original.value
            assert _user_headers(found.headers) == list(original.headers)

        name = f"{letters[topic]}-0@{letter.offset}"
        text = dlq(group, "edit", name, "--print").out
        assert json.loads(text)["do"] == ["reject"]
        file = group.folder / "edited.json"
        file.write_text(text.replace("reject", "ok"), encoding="utf-8")
        assert dlq(group, "edit", name, "--file", str(file), "--yes").code == 0
    until(lambda: group.outputs() == exactly([*range(3), *range(10, 13)]), "the edited values are handled")
    for topic, (_, died) in records.items():
        copy = group.cluster.read_written(f"{group.name}.ready.{topic}")[-1]
        assert copy.value is not None
        assert copy.value[:1] == (died.value or b"")[:1], "nothing is before the value"
        assert _user_headers(copy.headers) == list(died.headers)
    group.stop()
