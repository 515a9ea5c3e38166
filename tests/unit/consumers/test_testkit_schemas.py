"""HandlerKit.from_config takes schemas from files in place of a registry."""

from pathlib import Path

import pytest

from kafka_redelivery import AvroCodec, HandlerKit, Record
from kafka_redelivery.serdes.errors import UnknownSchemaError
from kafka_redelivery.topology.policy.decision import Ack, DeadLetter

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
