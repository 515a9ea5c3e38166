"""Where a query begins, whatever Spark's own notes say: where the group is."""

import shutil
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.streaming import prepare, run
from tests.scenarios.running import Group, exactly, script

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]


def test_notes_that_are_older_than_what_kafka_keeps(spark: SparkSession, group: Group) -> None:
    """Workers have served the group since, and what they handled is removed: the query begins where the group is."""
    prepare(group)
    group.send([["ok"]] * 10)
    run(group, spark)
    group.send([["ok"]] * 20, first=10)
    for (topic, partition), end in group.cluster.ends(group.source).items():
        group.cluster.commit(group.name, topic, partition, end)
        group.cluster.delete_before(topic, partition, end)
    group.send([["ok"]] * 5, first=30)

    run(group, spark)

    assert group.outputs() == exactly([*range(10), *range(30, 35)])


def test_sources_may_come_and_go(spark: SparkSession, group: Group) -> None:
    """A source whose first records are gone is added to a group with a checkpoint, and another one taken away."""
    prepare(group)
    group.send([["ok"]] * 10)
    run(group, spark)
    other, out = f"{group.name}.other.in", f"{group.name}.other.out"
    group.cluster.create(other, out)
    sources = group.configuration["sources"]
    added = [{"topic": other, "value": {"format": "json"}}]
    group.cluster.produce(other, [script(n, ["ok"]) for n in range(10)])
    group.cluster.delete_before(other, 0, 5)
    group.configure(sources=[*sources, *added])
    group.apply()

    run(group, spark)
    assert _numbers(group, out) == exactly(range(5, 10))

    group.configure(sources=added)
    group.cluster.produce(other, [script(n, ["ok"]) for n in range(10, 13)])
    run(group, spark)
    assert _numbers(group, out) == exactly(range(5, 13))


def test_a_source_that_begins_at_its_end_is_not_begun_twice(spark: SparkSession, group: Group) -> None:
    """With auto.offset.reset: latest what comes after the first start is handled, also without a checkpoint."""
    prepare(group, kafka={"auto.offset.reset": "latest"})
    group.send([["ok"]] * 3)
    run(group, spark)
    shutil.rmtree(group.folder / "checkpoint")
    group.send([["ok"]] * 5, first=3)

    run(group, spark)

    assert group.outputs() == exactly(range(3, 8))


def test_a_table_without_its_checkpoint(spark: SparkSession, group: Group) -> None:
    """The checkpoint is deleted, as may be: the table has each record once all the same."""
    sink = {"topic": group.output, "path": "table"}
    prepare(group, pipeline={"checkpoint": "checkpoint", "sink": sink})
    group.send([["ok"]] * 20)
    run(group, spark)
    shutil.rmtree(group.folder / "checkpoint")
    group.send([["ok"]] * 10, first=20)
    run(group, spark)

    rows = spark.read.parquet(str(group.folder / "table")).collect()

    assert Counter(int(row.value) for row in rows) == exactly(range(30))


def test_redeliveries_do_not_wait_behind_the_backlog(spark: SparkSession, group: Group) -> None:
    """Where there is more than a micro-batch takes, what is due again is taken first, and not in proportion."""
    prepare(
        group,
        pipeline={"checkpoint": "checkpoint", "maxOffsetsPerTrigger": 50},
        policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 0}},
    )
    group.send([["raise", "ok"]] * 30)
    run(group, spark)
    group.send([["ok"]] * 300, first=30)

    run(group, spark)

    times = sorted((record.timestamp_ms, int(record.value or b"")) for record in group.cluster.read(group.output))
    last = max(place for place, (_, n) in enumerate(times) if n < 30)
    assert last < 150


def _numbers(group: Group, topic: str) -> Counter[int]:
    return Counter(int(record.value or b"") for record in group.cluster.read(topic))
