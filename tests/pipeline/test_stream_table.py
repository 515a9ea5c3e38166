"""The table that a query appends to: while it cannot be written, records are handled, and it is completed later."""

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.stream.sink_table import compacting
from tests.pipeline.streaming import LONG_S, prepare, run, running
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]


def test_delta_merges_small_files_of_the_table_alone(spark: SparkSession) -> None:
    """The session of the user stays as it is; what it says applies."""
    name = "spark.databricks.delta.autoCompact.enabled"
    assert compacting(spark).conf.get(name) == "true"
    assert spark.conf.get(name, None) is None
    told = spark.newSession()
    told.conf.set(name, "false")
    assert compacting(told).conf.get(name) == "false"


@pytest.mark.long
def test_records_are_handled_while_the_table_cannot_be_written(
    spark: SparkSession, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """Then it gets each record once, in micro-batches that are limited like the others."""
    caplog.set_level(logging.WARNING)
    sink = {"topic": group.output, "path": "table", "trigger": "1s"}
    prepare(group, pipeline={"sink": sink, "maxOffsetsPerTrigger": 20})
    table = group.folder / "table"
    table.mkdir()
    today = datetime.now(UTC).date()
    blocking = [table / f"day={day}" for day in (today, today + timedelta(days=1))]
    for each in blocking:
        each.touch()  # where a folder has to be
    group.send([["ok"]] * 50)

    with running(group, spark):
        until(lambda: "the query of pipeline.sink failed" in caplog.text, "the table fails", within_s=LONG_S)
        group.send([["ok"]] * 10, first=50)
        until(lambda: group.outputs() == exactly(range(60)), "the handling goes on", within_s=LONG_S)
        for each in blocking:
            each.unlink()
        until(lambda: "appends to its table again" in caplog.text, "the table goes on", within_s=LONG_S)
        until(lambda: sum(_rows(spark, group).values()) >= 60, "all is in the table", within_s=LONG_S)

    assert _rows(spark, group) == exactly(range(60))
    assert len(list((table / "_checkpoint" / "commits").glob("[0-9]*"))) >= 3


@pytest.mark.long
def test_the_table_goes_on_without_what_kafka_has_removed(
    spark: SparkSession, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """The run fails and names the command. With it, the log names the missing offsets, and the rest is appended."""
    prepare(group, pipeline={"sink": {"topic": group.output, "path": "table"}})
    group.cluster.produce(group.output, [Sent(b"%d" % n, partition=0) for n in range(10)])
    run(group, spark)
    group.cluster.produce(group.output, [Sent(b"%d" % n, partition=0) for n in range(10, 20)])
    group.cluster.delete_before(group.output, 0, 15)

    with pytest.raises(StreamHaltedError, match=r"query of pipeline\.sink failed: .*once with --skip-removed"):
        run(group, spark)
    run(group, spark, skip_removed=True)

    assert f"Kafka has removed them: {group.output}-0@10..14" in caplog.text
    assert _rows(spark, group) == exactly([*range(10), *range(15, 20)])
    assert len(list((group.folder / "table").glob("day=*/part-*"))) == 2  # one for each append


def _rows(spark: SparkSession, group: Group) -> Counter[int]:
    return Counter(int(row.value) for row in read_table(spark, str(group.folder / "table")).collect())
