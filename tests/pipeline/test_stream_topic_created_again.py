"""A query handles all records of a topic that was deleted and created again, though Spark knows only its name."""

import logging

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.lake.table import read_table
from tests.pipeline.streaming import prepare, run, running, settle
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG_S = 120.0


def warnings(log: pytest.LogCaptureFixture, topic: str) -> list[str]:
    """Return what was said about a topic."""
    said = f"topic {topic} was deleted and created again"
    return [each.getMessage() for each in log.records if said in each.getMessage()]


def create_again(group: Group, topic: str, config: dict[str, str] | None = None) -> None:
    """Delete a topic and create it again."""
    group.cluster.delete(topic)
    group.cluster.create(topic, partitions=2, config=config)


def test_a_source_between_two_runs(spark: SparkSession, group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """All 80 records of the new one, also those at offsets that the group has read of the older one. It warns once."""
    prepare(group)
    group.send([["ok"]] * 50)
    run(group, spark)
    create_again(group, group.source)
    group.send([["ok"]] * 80, first=100)
    run(group, spark)
    assert group.outputs() == exactly([*range(50), *range(100, 180)])
    assert len(warnings(caplog, group.source)) == 1
    run(group, spark)
    assert group.outputs() == exactly([*range(50), *range(100, 180)])
    assert len(warnings(caplog, group.source)) == 1


def test_a_source_while_the_query_runs(spark: SparkSession, group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """It had read the older one to offset 100 of each partition. None of these offsets is skipped in the new one."""
    caplog.set_level(logging.INFO)
    prepare(group)
    with running(group, spark):
        group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in range(200)])
        until(lambda: group.outputs() == exactly(range(200)), "the older one is handled", within_s=LONG_S)
        create_again(group, group.source)
        group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in range(1000, 1400)])
        handled = {*range(200), *range(1000, 1400)}
        until(lambda: group.outputs().keys() == handled, "the new one is handled", within_s=LONG_S)
    assert max(group.outputs().values()) <= 2, "what was read before it was noticed is read again"
    assert len(warnings(caplog, group.source)) == 1


@pytest.mark.long
def test_a_ready_topic_and_a_tier_between_two_runs(spark: SparkSession, group: Group) -> None:
    """All redeliveries come, also those at offsets that the query and its scheduler have read of the older topics."""
    prepare(group, pipeline={"checkpoint": "checkpoint", "scheduler": "driver"})
    group.send([["raise", "ok"]] * 30)
    settle(group, spark, minutes=3)
    assert group.outputs() == exactly(range(30))
    for topic in (group.ready, group.tier("200ms")):
        create_again(group, topic, {"retention.ms": "-1", "max.message.bytes": "1060000"})
    group.send([["raise", "ok"]] * 40, first=100)
    settle(group, spark, minutes=3)
    assert group.outputs() == exactly([*range(30), *range(100, 140)])


@pytest.mark.long
def test_the_topic_of_a_table_between_two_runs(spark: SparkSession, group: Group) -> None:
    """The table keeps its rows, and gets all records of the new topic."""
    sink = {"topic": group.output, "path": "table"}
    prepare(group, pipeline={"checkpoint": "checkpoint", "sink": sink})
    for first, number in ((0, 20), (100, 30), (200, 25)):
        if first:
            create_again(group, group.output)
        group.send([["ok"]] * number, first=first)
        run(group, spark)
    rows = read_table(spark, str(group.folder / "table")).collect()
    assert sorted(int(row.value) for row in rows) == [*range(20), *range(100, 130), *range(200, 225)]
