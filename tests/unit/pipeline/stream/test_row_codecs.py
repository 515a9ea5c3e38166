"""Keys and values that Spark cannot decode or encode itself: with the codecs of workers, and their faults."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.pipeline.stream.row_codecs import RowCodecs
from kafka_redelivery.serdes.errors import SchemaSourceUnavailable
from kafka_redelivery.topology.config.loading import load_settings

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
ORDER = b"\x00\x00\x00\x00\x07\x54"
"""The Avro of ``{"n": 42}``, by the schema 7."""


def codecs(folder: Path, key: dict[str, Any], value: dict[str, Any], output: dict[str, Any]) -> RowCodecs:
    """The codecs of a group with the source ``t`` and the output ``out``."""
    (folder / "order.avsc").write_text(json.dumps(SCHEMA), encoding="utf-8")
    document = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere"},
        "sources": [{"topic": "t", "key": key, "value": value}],
        "outputs": [{"topic": "out", "value": output}],
    }
    return RowCodecs.of(load_settings(json.dumps(document)), folder, "out")


AVRO: dict[str, Any] = {"format": "avro", "schemas": {"7": "order.avsc"}, "writeId": 7}


@pytest.mark.parametrize("topic", ["t", "g.ready.t"])
def test_values_are_decoded_as_in_workers(tmp_path: Path, topic: str) -> None:
    """Of redeliveries, too. A key that cannot be decoded makes its record undecodable."""
    found = codecs(tmp_path, {"format": "string"}, AVRO, {})
    assert found.read(topic, b"k", ORDER, None, None) == ('{"n":42}', None)
    assert found.read(topic, b"k", None, None, None) == (None, None)
    for key, value in ((b"k", b"\x01"), (b"k", b""), (b"\xff", ORDER), (b"k", ORDER + ORDER)):
        text, error = found.read(topic, key, value, None, None)
        assert text is None
        assert error


def test_rows_become_values_of_the_output(tmp_path: Path) -> None:
    """A row that does not fit has failed alone, and one that is not sent is left out."""
    found = codecs(tmp_path, {}, {}, AVRO)
    assert not found.decoding
    assert found.written({"n": 42}) == (ORDER, None, None)
    assert found.written(None) == (None, None, None)
    data, exception, message = found.written({"n": "many"})
    assert (data, exception) == (None, "EncodeError")
    assert message


def test_spark_decodes_text_and_json_itself(tmp_path: Path) -> None:
    """No Python worker is asked."""
    for key, value in (({}, {"format": "json"}), ({"format": "string"}, {"format": "string"})):
        found = codecs(tmp_path, key, value, {"format": "json"})
        assert (found.decoding, found.encoding) == ({}, None)
    assert set(codecs(tmp_path, {"format": "json"}, {}, {}).decoding) == {"t", "g.ready.t"}


def test_a_registry_that_is_away_decides_nothing(tmp_path: Path) -> None:
    """Its error names it, and the micro-batch is tried again."""
    away = {"format": "avro", "registry": {"url": "http://127.0.0.1:1", "max.retries": 0}}
    found = codecs(tmp_path, {}, away, {})
    with pytest.raises(SchemaSourceUnavailable, match=r"127\.0\.0\.1:1"):
        found.read("t", None, ORDER, None, None)
