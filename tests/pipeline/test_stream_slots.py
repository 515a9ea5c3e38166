"""A task handles several records at a time, and several partitions, with the same outcomes as one by one."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches
from kafka_redelivery.pipeline.task.contract import TaskResult
from tests.pipeline.streaming import audited, prepare, run
from tests.scenarios.running import Group, exactly, number, script

pytestmark = [pytest.mark.spark]

POLICY = {"redeliveryPolicy": {"initialRedeliveryDelay": 0, "redeliveryDelay": 300_000}}


@pytest.mark.parametrize("name", ["scripted", "scripted_async"])
def test_each_record_has_one_outcome(spark: SparkSession, group: Group, name: str) -> None:
    """Whatever the records beside it do, and in several micro-batches."""
    prepare(
        group,
        journal=True,
        handler={"callable": f"tests.pipeline.handlers:{name}", "slots": 4, "ordering": "key", "deadline": "10s"},
        limits={"batch": 50},
        pipeline={"maxOffsetsPerTrigger": 100},
        policyEntry=POLICY,
    )
    group.send([["ok"]] * 100 + [["raise", "ok"], ["reject"], ["kill", "ok"], ["to no.such.topic"]] + [["ok"]] * 100)

    run(group, spark)

    assert group.outputs() == exactly([*range(100), *range(104, 204)])
    assert group.dead() == exactly([101])

    run(group, spark)  # the ready topic

    assert group.outputs() == exactly([*range(101), 102, *range(104, 204)])
    assert [number(record) for record in group.cluster.read(group.tier("5m"))] == [103]
    assert audited(group, spark) == {"acked": 200, "recovered": 2, "dead_lettered": 1, "pending": 1}


@pytest.mark.long
def test_each_source_has_its_own_handler(spark: SparkSession, group: Group) -> None:
    """One query has a plain, an asynchronous and a vectorised one, in the same tasks."""
    names = ("scripted", "scripted_async", "vectorized")
    kinds = {f"{group.name}.{name}.in": name for name in names}
    own: dict[str, dict[str, object]] = {
        "scripted": {"slots": 2, "isolation": "process"},
        "scripted_async": {"slots": 4, "ordering": "key"},
        "vectorized": {"vectorized": True},
    }
    group.cluster.create(*kinds, *(f"{group.name}.{name}.out" for name in names), partitions=2)
    sources = [
        {
            "topic": topic,
            "value": {"format": "raw" if name == "vectorized" else "json"},
            "handler": {"callable": f"tests.pipeline.handlers:{name}", **own[name]},
        }
        for topic, name in kinds.items()
    ]
    prepare(group, journal=True, sources=sources, policyEntry=POLICY)
    for first, topic in zip((0, 1000, 2000), kinds, strict=True):
        steps = [["ok"]] * 200 + [["raise"], ["reject"], ["kill"]] + [["ok"]] * 200
        group.cluster.produce(topic, [script(n, do) for n, do in enumerate(steps, start=first)])

    run(group, spark)

    for first, topic in zip((0, 1000, 2000), kinds, strict=True):
        outputs = Counter(int(each.value or b"-1") for each in group.cluster.read(topic.removesuffix(".in") + ".out"))
        assert outputs == exactly([*range(first, first + 200), *range(first + 203, first + 403)])
        assert [number(each) for each in group.cluster.read(f"DLQ.{topic}")] == [first + 201]
    assert audited(group, spark) == {"acked": 1200, "dead_lettered": 3, "pending": 6}


@pytest.mark.long
def test_a_task_covers_several_partitions(spark: SparkSession, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tasks for each of the two cores have the records of twelve partitions."""
    tasks: list[int] = []
    report = MicroBatches._report

    def count(batches: MicroBatches, results: list[TaskResult]) -> None:
        tasks.append(sum(bool(each.writes) for each in results))
        report(batches, results)

    monkeypatch.setattr(MicroBatches, "_report", count)
    prepare(group, partitions=12, journal=True)
    group.send([["ok"]] * 200 + [["reject"]] * 20, keys=200)
    run(group, spark)
    group.send([["ok"]] * 200, first=220, keys=200)

    run(group, spark)

    assert group.outputs() == exactly([*range(200), *range(220, 420)])
    assert group.dead() == exactly(range(200, 220))
    assert tasks == [8, 8]
    assert audited(group, spark) == {"acked": 400, "dead_lettered": 20}
