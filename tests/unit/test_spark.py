"""What the door to Spark refuses before anything is opened, and how a query ends."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructType

from kafka_redelivery.pipeline.errors import PipelineRefusedError, StreamHaltedError
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.spark import KafkaTopic, Query, Redelivery, check_formats, check_output, refuse_session


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
