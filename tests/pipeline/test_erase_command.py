"""`redelivery pipeline erase` asks, and a condition that would take for ever is stopped before anything is changed."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA
from kafka_redelivery.topology.exit_codes import FAILED
from tests.scenarios.commands import on_terminal
from tests.scenarios.running import COMMAND


@pytest.mark.spark
@pytest.mark.long
def test_a_slow_condition_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """The error says what is slow, and what to do. The table still has the row."""
    table, config = _archive(spark, tmp_path)
    options = [*_erase(table), "--config", str(config), "--within", "2s", "--yes"]
    condition = ["--where", f"value like '{'%a' * 8}%b'"]
    command = [sys.executable, *COMMAND, *options, *condition]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert ended.returncode == FAILED, ended.stderr
    assert "--where was not computed for all rows within 2 s" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert spark.read.format("delta").load(str(table)).count() == 1


@pytest.mark.spark
@pytest.mark.long
def test_a_person_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    """The command shows how many rows it would erase, and erases none without a yes."""
    table, config = _archive(spark, tmp_path)

    ended = on_terminal("n", *_erase(table), "--origin", "ord*", file=config, within_s=240)

    assert ended.code == FAILED, ended.err
    assert "1 rows would be erased" in ended.out
    assert "erase them for good?" in ended.out
    assert spark.read.format("delta").load(str(table)).count() == 1


def _archive(spark: SparkSession, folder: Path) -> tuple[Path, Path]:
    """Write a table with one row, and a configuration."""
    table, config = folder / "table", folder / "redelivery.yaml"
    whole = dict.fromkeys(ARCHIVE_SCHEMA.names) | {"value": b"a" * 20_000, "day": date(2026, 1, 1), "origin": "orders"}
    frame = spark.createDataFrame([Row(**whole)], ARCHIVE_SCHEMA)
    frame.write.format("delta").partitionBy("day").save(str(table))
    document = {"group": "g", "kafka": {"bootstrap.servers": "localhost:1"}, "sources": [{"topic": "orders"}]}
    config.write_text(json.dumps(document), encoding="utf-8")
    return table, config


def _erase(table: Path) -> list[str]:
    return ["pipeline", "erase", "--archive", str(table), "--spark", "spark.master=local[1]"]
