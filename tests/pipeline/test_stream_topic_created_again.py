"""A query handles all records of a topic that was deleted and created again, though Spark knows only its name."""

import logging

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.streaming import prepare, run, running
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG_S = 120.0


def warnings(log: pytest.LogCaptureFixture, topic: str) -> list[str]:
    """Return what was said about a topic."""
    said = f"topic {topic} was deleted and created again"
    return [each.getMessage() for each in log.records if said in each.getMessage()]


def create_again(group: Group, topic: str) -> None:
    """Delete a topic and create it again."""
    group.cluster.delete(topic)
    group.cluster.create(topic, partitions=2)


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
