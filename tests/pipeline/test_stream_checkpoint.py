"""A query starts at the group's offsets, whatever Spark's checkpoint says."""

import shutil
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.lake.table import read_table
from tests.pipeline.streaming import prepare, run
from tests.scenarios.running import Group, exactly, script

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_a_checkpoint_older_than_the_log_start(spark: SparkSession, group: Group) -> None:
    """Workers handled records that Kafka has since removed: the query starts at the group's offsets."""
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


def test_sources_can_be_added_and_removed(spark: SparkSession, group: Group) -> None:
    """A source whose first records are removed joins a group with a checkpoint, and another source leaves it."""
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


def test_the_start_at_the_end_of_a_source_is_committed(spark: SparkSession, group: Group) -> None:
    """With auto.offset.reset: latest, records after the first start are handled, also if the checkpoint is lost."""
    prepare(group, kafka={"auto.offset.reset": "latest"})
    group.send([["ok"]] * 3)
    run(group, spark)
    shutil.rmtree(group.folder / "checkpoint")
    group.send([["ok"]] * 5, first=3)

    run(group, spark)

    assert group.outputs() == exactly(range(3, 8))


def test_a_table_without_its_checkpoint(spark: SparkSession, group: Group) -> None:
    """After the query's checkpoint is deleted, the sink table still has each record once."""
    sink = {"topic": group.output, "path": "table"}
    prepare(group, pipeline={"checkpoint": "checkpoint", "sink": sink})
    group.send([["ok"]] * 20)
    run(group, spark)
    shutil.rmtree(group.folder / "checkpoint")
    group.send([["ok"]] * 10, first=20)
    run(group, spark)

    rows = read_table(spark, str(group.folder / "table")).collect()

    assert Counter(int(row.value) for row in rows) == exactly(range(30))


def test_redeliveries_do_not_wait_behind_the_backlog(spark: SparkSession, group: Group) -> None:
    """With a backlog larger than a micro-batch, redeliveries are handled first."""
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
