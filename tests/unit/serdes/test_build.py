from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.build import SerdeSettings, build_codec, settings_faults
from kafka_redelivery.serdes.codec import JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.errors import SchemaError, SerdeSettingsError
from kafka_redelivery.serdes.json_schema import JsonSchemaCodec
from kafka_redelivery.serdes.protobuf import ProtobufCodec

if TYPE_CHECKING:
    from tests.unit.serdes.conftest import Registry

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
HERE = Path("flight.avsc")
URL = {"url": "http://127.0.0.1:1"}


@pytest.fixture
def flight(tmp_path: Path) -> Path:
    """A schema's file."""
    path = tmp_path / "flight.avsc"
    path.write_text(json.dumps(FLIGHT), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (SerdeSettings("raw"), RawCodec),
        (SerdeSettings("string"), StringCodec),
        (SerdeSettings("json"), JsonCodec),
        (SerdeSettings("avro", registry=URL), AvroCodec),
        (SerdeSettings("protobuf", registry=URL), ProtobufCodec),
        (SerdeSettings("jsonschema", registry=URL), JsonSchemaCodec),
    ],
    ids=lambda value: getattr(value, "format", ""),
)
def test_each_format_has_its_codec(settings: SerdeSettings, kind: type[object]) -> None:
    """The codec's name is the format's."""
    codec = build_codec(settings)
    assert isinstance(codec, kind)
    assert codec.name == settings.format


def test_avro_from_files_reads_and_writes(flight: Path) -> None:
    """Local schemas need no registry."""
    codec = build_codec(SerdeSettings("avro", schemas={7: flight}, reader=flight, write_id=7))
    data = codec.encode({"carrier": "UA"})
    assert data == b"\0\0\0\0\x07\x04UA"
    assert codec.decode(data) == {"carrier": "UA"}


def test_avro_from_a_registry_reads_and_writes(registry: Registry, flight: Path) -> None:
    """The registry's subject gives the id the application's schema is written under."""
    registry.add(7, FLIGHT)
    codec = build_codec(SerdeSettings("avro", registry={"url": registry.url}, reader=flight, subject="flights-value"))
    data = codec.encode({"carrier": "UA"})
    assert data == b"\0\0\0\0\x07\x04UA"
    assert codec.decode(data) == {"carrier": "UA"}


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"format": "xml"}, ["format"]),
        ({"format": "json", "schemas": {1: HERE}}, ["schemas"]),
        (
            {"format": "raw", "schemas": {1: HERE}, "reader": HERE, "write_id": 0, "registry": URL, "subject": ""},
            ["schemas", "reader", "write_id", "registry", "subject"],
        ),
        ({"format": "avro"}, ["schemas"]),
        ({"format": "avro", "schemas": {1: HERE}, "registry": URL}, ["registry"]),
        ({"format": "avro", "registry": {"timeout": "1"}}, ["registry"]),
        ({"format": "avro", "schemas": {1: HERE}, "write_id": 0}, ["write_id"]),
        ({"format": "protobuf"}, ["schemas"]),
        ({"format": "protobuf", "registry": URL, "reader": HERE}, ["reader"]),
        ({"format": "jsonschema", "registry": URL, "message": "nyc.Flight"}, ["message"]),
        ({"format": "jsonschema", "schemas": {1: HERE}, "subject": "s"}, ["subject"]),
        ({"format": "avro", "registry": URL, "subject": "s", "reader": HERE, "write_id": 0}, ["subject"]),
        ({"format": "avro", "schemas": {1: HERE}, "subject": "s", "write_id": 2}, ["write_id"] + ["subject"] * 2),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_name_their_field(settings: dict[str, Any], fields: list[str]) -> None:
    """All faults are found at once, without a file or a connection, and each says what to write instead."""
    faults = settings_faults(SerdeSettings(**settings))
    assert [fault.field for fault in faults] == fields
    assert all(fault.problem and fault.fix for fault in faults)
    with pytest.raises(SerdeSettingsError) as caught:
        build_codec(SerdeSettings(**settings))
    assert str(caught.value) == str(faults[0])


@pytest.mark.parametrize("settings", [{"schemas": {0: HERE}, "write_id": 0}, {"registry": URL, "write_id": 0}], ids=str)
def test_the_id_zero_is_an_id(settings: dict[str, Any]) -> None:
    """Zero is never taken for nothing."""
    assert settings_faults(SerdeSettings("avro", **settings)) == ()


@pytest.mark.parametrize("setting", ["schemas", "reader"])
def test_a_missing_file_is_found_when_the_codec_is_built(flight: Path, setting: str) -> None:
    """A wrong path stops the start, not the first record."""
    gone = flight.with_name("gone.avsc")
    schemas, reader = ({7: gone}, flight) if setting == "schemas" else ({7: flight}, gone)
    with pytest.raises(SchemaError, match=r"gone\.avsc"):
        build_codec(SerdeSettings("avro", schemas=schemas, reader=reader))


def test_a_password_is_not_in_the_representation() -> None:
    """Settings may be logged."""
    assert "secret" not in repr(SerdeSettings("avro", registry={**URL, "basic.auth.user.info": "me:secret"}))


def test_without_a_registry_no_client_is_imported() -> None:
    """Building the other codecs loads nothing of confluent-kafka."""
    program = (
        "import sys\n"
        "from kafka_redelivery.serdes.build import SerdeSettings, build_codec\n"
        "for name in ('raw', 'string', 'json'):\n"
        "    build_codec(SerdeSettings(name))\n"
        "sys.exit('confluent_kafka' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
