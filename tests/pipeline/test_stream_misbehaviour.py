"""The query continues whatever a record does, and the record has the same outcome as with a worker."""

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import PipelineRefusedError, StreamHaltedError
from kafka_redelivery.transport.admin.errors import TopologyRefusedError
from tests.pipeline.streaming import prepare, run
from tests.scenarios.cluster import Seen, Sent
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]

POLICY = {
    "redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 0, "redeliveryDelay": 300_000},
}
TIMES = {"_AMQ_SCHED_DELIVERY", "_AMQ_ACTUAL_EXPIRY"}


def test_only_the_record_at_fault_fails(spark: SparkSession, group: Group) -> None:
    """A missed deadline, a dead process, a record that is too large and a missing topic each fail one record only."""
    # The first record of each new process asks Kafka for its topic within the deadline.
    prepare(group, handler={"deadline": "10s"}, output={"max.message.bytes": "2000"}, limits={"batch": 5})
    steps = [["stall"], ["exit"], ["big 9000"], ["to no.such.topic"], ["redeliver"]]
    group.send([["ok"]] * 20 + steps + [["ok"]] * 20)

    run(group, spark)

    assert group.outputs() == exactly([*range(20), *range(25, 45)])
    waiting = group.cluster.read(group.tier("200ms"))
    assert {json.loads(record.value or b"")["n"] for record in waiting} == set(range(20, 25))
    assert all(record.header("JMSXDeliveryCount") == "1" for record in waiting)
    assert len(waiting) == 5


def test_a_query_writes_the_same_records_as_a_worker(spark: SparkSession, group: Group) -> None:
    """Topics, partitions, keys, values and headers of the produced records are the same."""
    prepare(group, policyEntry=POLICY)
    group.cluster.alter(group.source, retention_ms="-1")  # the timestamps are of 2023: Kafka would delete the records
    group.cluster.produce(group.source, _records())
    for _ in range(2):
        run(group, spark)
    found = _copies(group)
    other = Group(group.cluster, group.name[:-1] + "z", group.folder / "worker", {})
    other.folder.mkdir()
    try:
        prepare(other, policyEntry=POLICY)
        group.cluster.alter(other.source, retention_ms="-1")
        group.cluster.produce(other.source, _records())
        other.worker()
        until(lambda: len(_copies(other)) >= len(found), "the worker has written as many records")
        other.stop()
        assert _copies(other) == found
    finally:
        other.close()


def test_a_query_without_a_listed_output_is_refused(spark: SparkSession, group: Group) -> None:
    """Before it joins its group."""
    prepare(group, outputs=[{"topic": f"{group.name}.totals"}])
    with pytest.raises(TopologyRefusedError, match=r"totals: the output topic does not exist"):
        run(group, spark)


def test_a_group_with_workers_is_refused(spark: SparkSession, group: Group) -> None:
    """While a worker is a member of the group, a query is refused, and the worker keeps running."""
    prepare(group, handler={"callable": "tests.scenarios.handlers:scripted"})
    worker = group.worker()
    until(lambda: any(group.cluster.members(group.name).values()), "the worker has partitions")

    with pytest.raises(PipelineRefusedError, match="stop the workers first"):
        run(group, spark)

    assert worker.running
    group.stop()


def _records() -> list[Sent]:
    """Return one record of each kind, with fixed partitions and timestamps."""
    records = [
        script(0, ["ok"], partition=0),
        script(1, ["raise"], partition=1, headers=[("trace", b"t"), ("empty", None)]),
        script(2, ["reject"], partition=0),
        script(3, ["raise", "ok"], partition=1),
        Sent(b"{", b"key", (), 0),
        Sent(None, None, (("JMSExpiration", b"1"),), 1),
        script(4, ["raise"], partition=0, headers=[("JMSDeliveryMode", b"PERSISTENT"), ("trace", b"u")]),
    ]
    return [
        Sent(each.value, each.key, each.headers, each.partition, 1_700_000_000_000 + n)
        for n, each in enumerate(records)
    ]


def _copies(group: Group) -> list[tuple[object, ...]]:
    """Return every produced record without the group's name and times of handling, and without the control topic."""
    others = {group.source, f"{group.name}.control"}
    own = [topic for topic in group.cluster.topics() if group.name in topic and topic not in others]
    return sorted((_neutral(group, record) for record in group.cluster.read(*own)), key=repr)


def _neutral(group: Group, record: Seen) -> tuple[object, ...]:
    name = group.name.encode()
    headers = tuple(
        (header, "a time" if header in TIMES else value if value is None else value.replace(name, b"GROUP"))
        for header, value in record.headers
    )
    return record.topic.replace(group.name, "GROUP"), record.partition, record.key, record.value, headers


@pytest.mark.parametrize("missing", ["kafka_redelivery", "pyarrow"])
def test_an_executor_without_a_package_ends_the_query(
    spark: SparkSession, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """As on a cluster whose executors have not been given the environment: no later attempt could do better."""
    prepare(group)
    group.send([["ok"]])
    blocked = tmp_path / "blocked" / missing / "__init__.py"
    blocked.parent.mkdir(parents=True)
    blocked.write_text(f"raise ModuleNotFoundError(\"No module named '{missing}'\")", encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}/blocked:$PYTHONPATH" exec {sys.executable} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))

    with pytest.raises(StreamHaltedError, match=rf"executor: .*(?i:{missing}).*'On a cluster' of docs/spark\.md"):
        run(group, spark)
