"""A condition that would take for ever is stopped before anything is changed."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA
from kafka_redelivery.topology.exit_codes import FAILED
from tests.scenarios.running import COMMAND


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_slow_condition_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """The error says what is slow, and what to do. The table still has the row."""
    table, config = tmp_path / "table", tmp_path / "redelivery.yaml"
    whole = dict.fromkeys(ARCHIVE_SCHEMA.names) | {"value": b"a" * 20_000, "day": date(2026, 1, 1), "origin": "orders"}
    frame = spark.createDataFrame([Row(**whole)], ARCHIVE_SCHEMA)
    frame.write.partitionBy("day", "origin").parquet(str(table))
    document = {"group": "g", "kafka": {"bootstrap.servers": "localhost:1"}, "sources": [{"topic": "orders"}]}
    config.write_text(json.dumps(document), encoding="utf-8")
    options = ["--archive", str(table), "--config", str(config), "--spark", "spark.master=local[1]", "--within", "2s"]
    condition = ["--where", f"value like '{'%a' * 8}%b'"]
    command = [sys.executable, *COMMAND, "pipeline", "erase", *options, *condition]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert ended.returncode == FAILED, ended.stderr
    assert "--where was not computed for all rows within 2 s" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert spark.read.parquet(str(table)).count() == 1
