"""The Spark session reads Kafka, and user modules in the working directory do not disturb its Python workers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.lake.table import utc_day
from kafka_redelivery.pipeline.spark.session import _local, find_spark_java, spark_session
from kafka_redelivery.pipeline.stream.checkpoint import refuse_unwritable
from tests.scenarios.cluster import Cluster, Sent


def test_spark_reads_kafka(spark: SparkSession, cluster: Cluster, unique: str) -> None:
    """A session reads a topic with the pinned jars, and Python workers process the records."""
    cluster.create(unique)
    cluster.produce(unique, [Sent(b"value", b"key")])
    options = {
        "kafka.bootstrap.servers": cluster.servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": unique,
    }

    read = spark.read.format("kafka").options(**options).load().select("key", "value")

    found = read.mapInArrow(_identity, "key binary, value binary").collect()
    assert [(bytes(row.key), bytes(row.value)) for row in found] == [(b"key", b"value")]


def test_days_are_in_utc(spark: SparkSession) -> None:
    """The day of a row does not depend on the time zone of the session."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")

    day = session.sql("SELECT timestamp_millis(1700000000000) AS at").select(utc_day("at").alias("day")).first()

    assert day is not None
    assert day.day == date(2023, 11, 14)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def test_the_error_without_java_names_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If no Java is found, the error names a package to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PipelineRefusedError, match="openjdk-17-jre-headless"):
        find_spark_java()


def test_a_checkpoint_folder_that_is_not_writable_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the setting. A folder that is writable is created and left empty."""
    (tmp_path / "file").touch()

    with pytest.raises(PipelineRefusedError, match=r"file/stream cannot be written .*pipeline\.checkpoint"):
        refuse_unwritable(spark, (tmp_path / "file" / "stream").as_uri())

    refuse_unwritable(spark, (tmp_path / "new" / "stream").as_uri())
    assert list((tmp_path / "new" / "stream").iterdir()) == []


def test_a_job_leaves_the_sessions_of_its_application_alone(spark: SparkSession) -> None:
    """As in a notebook: the job's settings are its own, and the application goes on after it."""
    before = spark.conf.get("spark.sql.ansi.enabled")

    with spark_session("job", {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "7"}) as session:
        assert session.conf.get("spark.sql.ansi.enabled") == "false"
        assert session.conf.get("spark.sql.shuffle.partitions") == "2", "what the application was started with"
        assert spark.conf.get("spark.sql.ansi.enabled") == before == "true"

    assert spark.range(3).count() == 3


_SPARK = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, ["127.0.0.1", "127.0.0.1", "127.0.0.1"]),
        ({"spark.master": "local-cluster[2,1,512]"}, ["127.0.0.1", "127.0.0.1", "127.0.0.1"]),
        ({"spark.master": "local[2]", "spark.driver.host": "10.0.0.7"}, ["10.0.0.7", "127.0.0.1", "127.0.0.1"]),
        ({"spark.master": "spark://m:7077"}, [None, None, None]),
        ({"spark.master": "spark://m:7077", "spark.driver.host": "10.0.0.7"}, ["10.0.0.7", None, None]),
    ],
)
def test_only_a_local_master_is_on_loopback(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], addresses: list[str | None]
) -> None:
    """Executors on other machines can reach the driver, and an address that the user has set is kept."""
    for name in ("SPARK_LOCAL_IP", "JAVA_HOME", "PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # restored after the test
    monkeypatch.delenv("SPARK_LOCAL_IP")
    given = {**settings, "spark.jars.packages": _SPARK}

    found = given | _local(given, ())

    names = ("spark.driver.host", "spark.driver.bindAddress")
    assert [*map(found.get, names), os.environ.get("SPARK_LOCAL_IP")] == addresses


_JOB = """
from kafka_redelivery.pipeline.spark.session import spark_session

def identity(batches):
    import grp, kafka_redelivery
    yield from batches

with spark_session("test", {"spark.master": "local[1]"}) as spark:
    print("rows:", len(spark.range(3).mapInArrow(identity, "id bigint").collect()))
"""


@pytest.mark.long
def test_modules_in_the_working_directory_do_not_hide_others(tmp_path: Path) -> None:
    """A job runs in a directory with modules that have the names of a standard module and of our packages."""
    for name in ("grp.py", "socket.py", "pipeline.py", "kafka_redelivery.py", "consumers/__init__.py"):
        module = tmp_path / name
        module.parent.mkdir(exist_ok=True)
        module.write_text(f"raise ImportError('{name} of the working directory was imported')", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}

    job = subprocess.run(
        [sys.executable, "-P", "-c", _JOB],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "rows: 3" in job.stdout, job.stderr[-3000:]
