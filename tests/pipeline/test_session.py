"""Spark runs with nothing but what the README sets up."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipeline.checkpoint import refuse_unwritable
from pipeline.days import utc_day
from pipeline.errors import SparkUnavailableError, StreamRefusedError
from pipeline.spark_java import find_spark_java
from tests.scenarios.cluster import Cluster, Sent


def test_spark_reads_kafka(spark: SparkSession, cluster: Cluster, unique: str) -> None:
    """A session reads a topic with the jars that are pinned, and runs Python of this environment over it."""
    cluster.create(unique)
    cluster.produce(unique, [Sent(b"value", b"key")])
    options = {
        "kafka.bootstrap.servers": cluster.servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": unique,
    }

    read = spark.read.format("kafka").options(**options).load().select("key", "value")

    found = read.mapInArrow(_as_it_is, "key binary, value binary").collect()
    assert [(bytes(row.key), bytes(row.value)) for row in found] == [(b"key", b"value")]


def test_days_are_those_of_utc(spark: SparkSession) -> None:
    """Whatever time zone was submitted: a table is not divided otherwise after a change of clusters."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")

    day = session.sql("SELECT timestamp_millis(1700000000000) AS at").select(utc_day("at").alias("day")).first()

    assert day is not None
    assert day.day == date(2023, 11, 14)


def _as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def test_no_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no Java is found the error says which package brings one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SparkUnavailableError, match="openjdk-17-jre-headless"):
        find_spark_java()


def test_a_checkpoint_that_cannot_be_written_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything is handled, with the setting that names it; a folder that can be is made, and left empty."""
    (tmp_path / "file").touch()

    with pytest.raises(StreamRefusedError, match=r"file/stream cannot be written .*pipeline\.checkpoint"):
        refuse_unwritable(spark, (tmp_path / "file" / "stream").as_uri())

    refuse_unwritable(spark, (tmp_path / "new" / "stream").as_uri())
    assert list((tmp_path / "new" / "stream").iterdir()) == []
