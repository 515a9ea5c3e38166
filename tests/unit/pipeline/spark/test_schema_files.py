"""Executors get the schemas even if they do not have the folder of the configuration."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark import SparkFiles

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.pipeline.spark.codecs import SchemaFiles
from kafka_redelivery.topology.config.loading import load_settings

_ORDER = {"type": "record", "name": "Order", "fields": [{"name": "at", "type": "shop.Place"}]}
_PLACE = {"type": "record", "name": "Place", "namespace": "shop", "fields": [{"name": "town", "type": "string"}]}
_RECORD = b"\x00\x00\x00\x00\x01\x06Ulm"


def test_a_copy_is_used_where_the_folder_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy includes files above the folder and referenced schemas. Without need, no copy is made."""
    base = tmp_path / "driver" / "app"
    for folder, schema, name in (
        ("../shared", _ORDER, "order"),
        ("../shared", _PLACE, "shop.Place"),
        ("own", "int", "n"),
    ):
        (base / folder).mkdir(parents=True, exist_ok=True)
        (base / folder / f"{name}.avsc").write_text(json.dumps(schema), encoding="utf-8")
    value = {"format": "avro", "schemas": {1: "../shared/order.avsc"}}
    source = {"topic": "t", "key": {"format": "avro", "schemas": {2: "own/n.avsc"}}, "value": value}
    settings = load_settings(json.dumps({"group": "g", "kafka": {"bootstrap.servers": "k"}, "sources": [source]}))
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "executor"))

    shipped = SchemaFiles.of(settings, base)

    assert shipped.folder(base) == base
    shutil.rmtree(tmp_path / "driver")
    (tmp_path / "executor").mkdir()
    key, reader = codecs(settings.sources[0], shipped.folder(base))
    assert reader.decode(_RECORD) == {"at": {"town": "Ulm"}}
    assert key.decode(b"\x00\x00\x00\x00\x02\x06") == 3
    assert {path.name for path in tmp_path.iterdir()} == {"executor"}
