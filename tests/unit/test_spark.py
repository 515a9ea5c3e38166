"""What the door to Spark refuses before anything is opened, and how a query ends."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructType

from kafka_redelivery import spark
from kafka_redelivery.pipeline.errors import PipelineRefusedError, StreamHaltedError
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.spark import (
    KafkaTopic,
    Query,
    Redelivery,
    check_formats,
    check_output,
    refuse_session,
    session_settings,
)
from kafka_redelivery.topology.config.settings import Settings


def test_the_example_needs_no_session_before_its_query() -> None:
    """A program and the notebook import it before they make one."""
    subprocess.run([sys.executable, "-c", "import examples.flights_dataframe"], check=True, timeout=60)


def test_a_session_of_spark_connect_is_refused() -> None:
    """Its client has no driver."""
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(PipelineRefusedError, match=r"Spark Connect.*classic session"):
        refuse_session(session)
    with pytest.raises(PipelineRefusedError, match="pass a SparkSession"):
        refuse_session(None)


@pytest.mark.parametrize(
    ("formats", "schema", "text"),
    [
        (["json", "raw"], "a", "json and raw: the sources of a query need one format"),
        (["json"], None, "values are json: name the columns that you need"),
        (["avro"], None, "values are avro: name the columns that you need"),
        (["raw"], "a", "schema= is for values with fields"),
        (["json"], "_record", "names that begin with _"),
    ],
)
def test_values_without_columns_are_refused(formats: list[str], schema: str | None, text: str) -> None:
    """The message has the fix."""
    schemas = {"avro": {"schemas": {1: "a.avsc"}}}
    sources = [{"topic": f"t{n}", "value": {"format": f} | schemas.get(f, {})} for n, f in enumerate(formats)]
    settings = Redelivery(group="g", kafka={"bootstrap.servers": "nowhere"}, sources=sources).settings
    with pytest.raises(PipelineRefusedError, match=text):
        check_formats(settings, None if schema is None else StructType().add(schema, IntegerType()))


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({"value": {"format": "avro", "schema_id": "header"}}, "t has schemaId: header, and rows have no headers"),
        ({"key": {"format": "avro"}}, "t has keys of format avro: leave key= out"),
    ],
)
def test_an_output_that_a_row_cannot_become_is_refused(section: dict[str, dict[str, object]], text: str) -> None:
    """The message has the fix."""
    for side in section.values():
        side |= {"schemas": {1: "a.avsc"}, "write_id": 1}
    settings = Redelivery(
        group="g", kafka={"bootstrap.servers": "nowhere"}, sources=["s"], outputs=[{"topic": "t", **section}]
    ).settings
    key: Any = "a column" if "key" in section else None  # a real one needs Spark
    with pytest.raises(PipelineRefusedError, match=text):
        check_output(settings, KafkaTopic("t", key=key))


def _redelivery() -> Redelivery:
    return Redelivery(group="g", kafka={"bootstrap.servers": "nowhere"}, sources=["s"])


@pytest.mark.parametrize("to", ["receipts", Path("silver")])
def test_a_target_by_its_name_alone_is_refused(monkeypatch: pytest.MonkeyPatch, to: object) -> None:
    """As Spark's users may write it; the message has both calls."""
    monkeypatch.setattr(spark, "refuse_session", lambda _: None)
    with pytest.raises(PipelineRefusedError, match=re.escape(f"to is {to!r}: pass r.kafka(topic) or r.delta(")):
        _redelivery().start(None, lambda rows: rows, to=to)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "python"),
    [
        ({}, sys.executable),
        ({"PYSPARK_PYTHON": "/opt/python"}, "/opt/python"),
        ({"PYSPARK_GATEWAY_PORT": "25333"}, None),
    ],
)
def test_workers_of_a_session_use_this_python(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], python: str | None
) -> None:
    """PySpark would use ``python3`` of PATH, without this package. What is chosen or submitted is kept."""
    monkeypatch.setattr(spark, "with_jars", lambda *_: {})
    monkeypatch.setattr(os, "environ", environment)
    session_settings()
    assert os.environ.get("PYSPARK_PYTHON") == python


def test_one_column_partitions_a_table() -> None:
    """As with ``partitionBy`` in Spark."""
    _, section = spark._target(_redelivery().delta("silver", through="orders.clean", partition_by="day"))
    assert section is not None
    assert section.partition_by == ("day",)


@pytest.mark.parametrize("times", [("2026-01-01",), (None, 1767225600), (datetime(2026, 1, 31),)])  # noqa: DTZ001 - its fault
def test_a_time_that_is_no_datetime_is_refused(monkeypatch: pytest.MonkeyPatch, times: tuple[object]) -> None:
    """Before Kafka is asked; also one without a time zone."""
    monkeypatch.setattr(spark, "refuse_session", lambda _: None)
    with pytest.raises(
        PipelineRefusedError, match=r"pass a datetime with a time zone, such as datetime\(2026, 1, 31, tzinfo=UTC\)"
    ):
        _redelivery().read(None, *times)  # type: ignore[arg-type]


def test_a_missing_source_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the fix."""
    monkeypatch.setattr(spark, "refuse_session", lambda _: None)
    monkeypatch.setattr(spark, "partition_counts", lambda _: {"others": 1})
    with pytest.raises(PipelineRefusedError, match="there is no topic s: create it, or correct its name in sources"):
        _redelivery().read(None)  # type: ignore[arg-type]


def test_another_meaning_of_a_missing_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has those that there are."""
    monkeypatch.setattr(spark, "refuse_session", lambda _: None)
    with pytest.raises(PipelineRefusedError, match='on_missing is \'drop\': pass "fail" or "discard"'):
        _redelivery().start(None, lambda rows: rows, on_missing="drop")  # type: ignore[arg-type]


def test_a_table_of_handlers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a transformation it would get no row."""
    monkeypatch.setattr(spark, "refuse_session", lambda _: None)
    sink = {"topic": "out", "path": "table"}
    r = Redelivery(
        group="g",
        kafka={"bootstrap.servers": "nowhere"},
        sources=["s"],
        pipeline={"checkpoint": "c", "sink": sink},
    )
    with pytest.raises(PipelineRefusedError, match=r"pipeline\.sink is a table of handlers: remove it, and pass to="):
        r.start(None, lambda rows: rows)  # type: ignore[arg-type]


def test_a_second_query_of_a_group_stops_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a cell of a notebook runs again. One of another group goes on, and an error of the first is its own."""
    running: list[str] = []

    def run_stream(settings: Settings, _base: Path, *, shutdown: Shutdown, **_: object) -> None:
        assert settings.group not in running, "two queries of this group would end each other"
        running.append(settings.group)
        shutdown.started.set()
        shutdown.wait_requested(60)
        running.remove(settings.group)
        raise StreamHaltedError("at its end")

    monkeypatch.setattr(spark, "refuse_session", lambda _: None)
    monkeypatch.setattr(spark, "run_stream", run_stream)
    session: Any = None

    def start(group: str) -> Query:
        return Redelivery(group=group, kafka={"bootstrap.servers": "nowhere"}, sources=["s"]).start(session)

    first, other, second = start("a"), start("b"), start("a")

    assert not first.isActive
    assert isinstance(first.exception(), StreamHaltedError)
    assert second.isActive
    assert other.isActive
    for query in (second, other):
        with pytest.raises(StreamHaltedError):
            query.stop()


def _query(run: Callable[[Shutdown], None]) -> Query:
    query = Query("q", Shutdown(timedelta(seconds=10)))
    query.start(run)
    return query


def test_an_error_before_the_start_is_raised_by_start() -> None:
    """Not only where the query is waited for."""

    def run(_shutdown: Shutdown) -> None:
        raise StreamHaltedError("no topic")

    with pytest.raises(StreamHaltedError, match="no topic"):
        _query(run)


def test_an_error_of_a_running_query_is_raised_where_it_is_waited_for() -> None:
    """And ``exception()`` returns it, as in Spark."""
    go_on = threading.Event()

    def run(shutdown: Shutdown) -> None:
        shutdown.started.set()
        go_on.wait()
        raise StreamHaltedError("later")

    query = _query(run)
    assert query.isActive
    assert query.exception() is None
    assert not query.awaitTermination(0.01)
    go_on.set()
    with pytest.raises(StreamHaltedError, match="later"):
        query.stop()
    assert not query.isActive
    assert isinstance(query.exception(), StreamHaltedError)
