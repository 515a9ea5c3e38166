"""HandlerKit.from_config takes schemas from files in place of a registry."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from kafka_redelivery import AvroCodec, Context, HandlerKit, Record
from kafka_redelivery.dead_letters.decoding import texts_of
from kafka_redelivery.serdes.errors import UnknownSchemaError
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Ack, DeadLetter
from tests.unit.serdes.flights import DESCRIPTOR_SET, HEADER, Flight, Gate

REGISTRY = 'registry: {url: "http://registry.invalid:8081", basic.auth.user.info: "a:b"}'
TEXT = f"""
group: billing
kafka: {{bootstrap.servers: "localhost:9092"}}
sources:
  - topic: orders
    value: {{format: avro, {REGISTRY}}}
    key: {{format: string}}
  - topic: bills
    value: {{format: avro, schemas: {{3: order.avsc}}}}
outputs:
  - topic: receipts
    value: {{format: avro, {REGISTRY}, reader: order.avsc, subject: receipts-value}}
  - topic: copies
    value: {{format: avro, {REGISTRY}, writeId: 7}}
  - topic: mute
    value: {{format: avro, {REGISTRY}}}
handler: {{callable: "kit_handlers:unused"}}
"""
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration beside its schema."""
    (tmp_path / "order.avsc").write_text(ORDER)
    (tmp_path / "redelivery.yaml").write_text(TEXT)
    return tmp_path / "redelivery.yaml"


def kit_of(file: Path, to: str, ids: dict[int, str | Path], source: str = "orders") -> HandlerKit:
    """A kit whose handler sends the value on."""

    def send(record: Record, context) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        context.send(to, record.value)

    return HandlerKit.from_config(file, source=source, handler=send, schemas=ids, environment={})


@pytest.mark.parametrize(("to", "id_"), [("receipts", 5), ("copies", 7)])
def test_an_output_has_the_id_of_its_subject_or_its_own(file: Path, to: str, id_: int) -> None:
    """The files are relative to the configuration, or absolute."""
    kit = kit_of(file, to, {7: "order.avsc", 5: file.with_name("order.avsc")})
    [delivery] = kit.deliver(AvroCodec.of({7: file.with_name("order.avsc")}).encode({"id": "A1"}))
    assert delivery.decision == Ack()
    assert delivery.outputs[0].value == bytes([0, 0, 0, 0, id_, 4]) + b"A1"


def test_the_only_schema_encodes_what_the_test_delivers(file: Path) -> None:
    """So a test needs no codec of its own."""
    [delivery] = kit_of(file, "receipts", {7: "order.avsc"}).deliver({"id": "A1"}, key="anna")
    assert delivery.decision == Ack()


def test_an_output_that_a_worker_could_not_write_fails(file: Path) -> None:
    """Without a subject or an id, with one schema, too."""
    deliveries = kit_of(file, "mute", {7: "order.avsc"}).deliver({"id": "A1"})
    assert isinstance(deliveries[-1].decision, DeadLetter)
    assert deliveries[-1].failure is not None
    assert "no_write_schema" in deliveries[-1].failure.message


def test_other_ids_are_undecodable_and_local_schemas_stay(file: Path) -> None:
    """As in a worker."""
    [delivery] = kit_of(file, "receipts", {7: "order.avsc"}).deliver(b"\0\0\0\0\x03\4A1")
    assert isinstance(delivery.decision, DeadLetter)
    assert delivery.decision.reason == "undecodable"
    [delivery] = kit_of(file, "receipts", {7: "order.avsc"}, "bills").deliver(b"\0\0\0\0\x03\4A1")
    assert delivery.decision == Ack()


def test_a_subject_without_a_file_is_refused(file: Path) -> None:
    """It says which schema is missing."""
    other = file.with_name("other.avsc")
    other.write_text(ORDER.replace('"id"', '"n"'))
    with pytest.raises(UnknownSchemaError, match=r"schema Order \(for receipts-value\)"):
        kit_of(file, "receipts", {7: "other.avsc"})


OTHERS = f"""
group: billing
kafka: {{bootstrap.servers: "localhost:9092"}}
sources:
  - topic: flights
    value: {{format: protobuf, {REGISTRY}, message: nyc.Flight}}
outputs:
  - topic: gone
    value: {{format: protobuf, {REGISTRY}, subject: gone-value, message: nyc.Flight}}
  - topic: told
    value: {{format: jsonschema, {REGISTRY}, subject: told-value}}
handler: {{callable: "kit_handlers:unused"}}
"""


class Seen(BaseModel):
    carrier: str
    number: int | None = None


def others(folder: Path, handler: Callable[..., None]) -> HandlerKit:
    """A kit with Protobuf and JSON Schema, each with its own files."""
    (folder / "redelivery.yaml").write_text(OTHERS)
    (folder / "flight.desc").write_bytes(DESCRIPTOR_SET)
    (folder / "told.json").write_text('{"type": "object", "required": ["carrier"]}')
    schemas = {7: "flight.desc", 8: "told.json"}
    return HandlerKit.from_config(folder / "redelivery.yaml", handler=handler, schemas=schemas, environment={})


def test_protobuf_and_json_schema_have_files_of_their_own(tmp_path: Path) -> None:
    """A message is sent on as it is, and becomes a document for JSON Schema."""

    def send(record: Record, context: Context) -> None:
        context.send("gone", record.value)
        context.send("told", record.value)

    flight = HEADER + b"\x0a\x02UA" + b"\x2a\x01\xff" + b"\xa2\x06\x01x"
    [delivery] = others(tmp_path, send).deliver(flight)
    assert delivery.failure is None
    gone, told = (each.value for each in delivery.outputs)
    assert gone == flight
    assert told is not None
    assert told[:5] == b"\0\0\0\0\x08"
    document = json.loads(told[5:])
    assert (document["carrier"], document["tag"]) == ("UA", "_w==")


@pytest.mark.parametrize("kind", [Flight, Gate | Flight, Seen], ids=["class", "union", "model"])
def test_a_handler_takes_a_generated_class_or_a_model(tmp_path: Path, kind: Any) -> None:  # noqa: ANN401 - a type
    """Of a dict that the test delivers, too."""
    seen: list[Any] = []

    def take(flight: object) -> None:
        seen.append(flight)

    take.__annotations__["flight"] = kind
    deliveries = others(tmp_path, take).deliver({"carrier": "UA", "number": 0})
    assert deliveries[0].failure is None
    assert (seen[0].carrier, seen[0].number) == ("UA", 0)
    assert isinstance(seen[0], kind)


def test_a_message_of_another_class_is_undecodable(tmp_path: Path) -> None:
    """The error names both."""

    def take(gate: object) -> None:
        raise AssertionError(gate)

    take.__annotations__["gate"] = Gate
    [delivery] = others(tmp_path, take).deliver({"carrier": "UA"})
    assert isinstance(delivery.decision, DeadLetter)
    assert delivery.failure is not None
    assert "is a nyc.Flight, not a nyc.Gate" in delivery.failure.message


def test_where_reads_a_message_as_json(tmp_path: Path) -> None:
    """The decoded value, as `--where` and the console have it; bytes that are no message have none."""
    others(tmp_path, print)
    text = OTHERS.replace(REGISTRY, "schemas: {7: flight.desc}").partition("outputs:")[0]
    settings = load_settings(text + 'handler: {callable: "a:b"}', name="test", environment={})
    as_text = texts_of(settings, tmp_path)["flights"]
    found = as_text(HEADER + b"\x0a\x02UA\x18\x05", None)
    assert found is not None
    assert json.loads(found) == {"carrier": "UA", "distance": 5} | json.loads(found)
    assert as_text(b"no message", None) is None


def test_schema_ids_in_headers(tmp_path: Path) -> None:
    """A header that the handler sends on does not contradict what is written before the value."""
    (tmp_path / "seen.json").write_text("{}")
    seen = "format: jsonschema, schemas: {7: seen.json}, writeId: 7"
    (tmp_path / "redelivery.yaml").write_text(f"""
group: billing
kafka: {{bootstrap.servers: "localhost:9092"}}
sources: [{{topic: flights, key: {{{seen}}}, value: {{{seen}, schemaId: header}}}}]
outputs:
  - {{topic: framed, value: {{{seen}}}}}
  - {{topic: headed, value: {{{seen}, schemaId: header}}, key: {{format: string}}}}
handler: {{callable: "kit_handlers:unused"}}
""")

    def send(record: Record, context: Context) -> None:
        headers: list[tuple[str, bytes | None]] = [*record.raw_headers, ("trace", b"1")]
        context.send("framed", record.value, headers=headers)
        context.send("headed", record.value, key="a", headers=headers)
        context.send("headed", record.value)
        context.send("headed", None, headers=headers)
        context.send("elsewhere", record.raw_value, headers=headers)

    kit = HandlerKit.from_config(tmp_path / "redelivery.yaml", handler=send, environment={})
    kept = [("__value_schema_id", b"\0\0\0\0\x07")]
    [delivery, *_] = kit.deliver({"n": 1}, key={"k": 1})
    assert delivery.failure is None
    assert [(each.value, each.headers) for each in delivery.outputs] == [
        (b'\0\0\0\0\x07{"n":1}', [("trace", b"1")]),
        (b'{"n":1}', [("trace", b"1"), *kept]),
        (b'{"n":1}', kept),
        (None, [*kept, ("trace", b"1")]),
        (b'{"n":1}', [*kept, ("trace", b"1")]),
    ]
    [given] = kit.deliver(b'{"n":1}', headers=[("__value_schema_id", b"\1" + bytes(16))])
    assert isinstance(given.decision, DeadLetter)
