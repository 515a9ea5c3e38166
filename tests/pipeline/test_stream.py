"""A streaming query handles sources and ready topics under the group's policy."""

import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.stream import queries
from kafka_redelivery.pipeline.stream.stream import run_stream
from kafka_redelivery.topology.config.loading import load_settings
from tests.pipeline.streaming import LONG_S, Gate, audited, prepare, run, running
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]


def test_each_record_has_one_outcome(spark: SparkSession, group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """Records are emitted, retried or dead-lettered, each once. A second run handles nothing.

    Each run says how many records wait for a redelivery, and until when.
    """
    caplog.set_level(logging.INFO)
    prepare(group)
    group.send([["ok"]] * 50 + [["raise", "ok"]] * 5 + [["reject"]] * 3 + [["kill"]] * 2)

    run(group, spark)

    assert group.outputs() == exactly(range(50))
    assert group.dead() == exactly(range(55, 58))
    waiting = group.cluster.read(group.tier("200ms"))
    assert len(waiting) == 7
    assert Counter(record.header("JMSXDeliveryCount") for record in waiting) == {"1": 7}
    due = [int(record.header("_AMQ_SCHED_DELIVERY") or 0) // 1000 for record in waiting]
    first, last = (f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H:%M:%S} UTC" for each in (min(due), max(due)))
    text = f"7 records wait for a redelivery: the first is due at {first}, the last at {last}; "
    assert text in caplog.text

    for (tier, partition), end in group.cluster.ends(group.tier("200ms")).items():
        group.cluster.commit(f"{group.name}.scheduler", tier, partition, end)  # as if all had been released
    run(group, spark)

    assert group.outputs() == exactly(range(50))
    assert "no record waits for a redelivery" in caplog.text


@pytest.mark.usefixtures("spark")
def test_a_query_runs_in_another_thread_of_a_running_application(group: Group) -> None:
    """With a session of its own, and without a request to stop."""
    prepare(group)
    group.send([["ok"]] * 20)
    settings = load_settings(group.file.read_text(encoding="utf-8"))

    with ThreadPoolExecutor(1) as executor:
        executor.submit(run_stream, settings, group.folder, available_now=True).result(LONG_S)

    assert group.outputs() == exactly(range(20))


def test_a_vectorised_handler_fails_single_rows(spark: SparkSession, group: Group) -> None:
    """Only the rows at fault fail: named rows, and rows that raise, kill the process or send to a missing topic."""
    prepare(
        group,
        handler={"callable": "tests.pipeline.handlers:vectorized", "vectorized": True},
        sources=[{"topic": group.source}],
        policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 0, "redeliveryDelay": 300_000}},
    )
    group.send([["ok"]] * 300 + [["raise", "ok"], ["reject"], ["throw"], ["kill", "ok"], ["to"]])

    run(group, spark)

    assert group.outputs() == exactly(range(300))
    assert group.dead() == exactly([301])

    run(group, spark)  # the ready topic

    assert group.outputs() == exactly([*range(301), 303])
    assert sorted(number(record) for record in group.cluster.read(group.tier("5m"))) == [302, 304]


@pytest.mark.long
def test_the_table_holds_each_output_once(spark: SparkSession, group: Group) -> None:
    """The records of the output topic are appended to a table, each once, over several runs.

    One of Parquet is refused, because its readers would not find the records.
    """
    sink = {"topic": group.output, "path": "table"}
    prepare(group, pipeline={"checkpoint": "checkpoint", "sink": sink})
    group.send([["ok"]] * 20 + [["reject"]])
    run(group, spark)
    group.send([["ok"]] * 10, first=30)
    run(group, spark)

    rows = read_table(spark, str(group.folder / "table")).collect()

    assert Counter(int(row.value) for row in rows) == exactly([*range(20), *range(30, 40)])
    assert {row.day for row in rows} == {row.timestamp.date() for row in rows}
    (group.folder / "older" / "_spark_metadata").mkdir(parents=True)
    (group.folder / "older" / "_spark_metadata" / "0").touch()
    group.configure(pipeline={"checkpoint": "checkpoint", "sink": sink | {"path": "older"}})
    with pytest.raises(
        PipelineRefusedError, match=r"is a table of Parquet, .*: redelivery pipeline convert --table .*older"
    ):
        run(group, spark)


@pytest.mark.long
def test_a_micro_batch_that_takes_too_long_is_cancelled(spark: SparkSession, group: Group) -> None:
    """The query ends in time without an error. The next query handles the uncommitted records once."""
    prepare(group, limits={"batch": 10})
    gate = Gate(group, "gate")
    steps = [*[["ok"]] * 30, [gate.step], *[["ok"]] * 30]
    group.cluster.produce(group.source, [script(n, do, partition=0) for n, do in enumerate(steps)])
    with running(group, spark, shutdown_s=4):
        gate.reached()
    assert 0 < len(group.outputs()) <= 30
    gate.open()

    run(group, spark)

    assert group.outputs() == exactly(range(61))


@pytest.mark.long
def test_no_micro_batch_begins_after_a_shutdown_request(
    spark: SparkSession, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shutdown is requested between two micro-batches, and records arrive before the query has stopped."""
    prepare(group)
    group.send([["ok"]])
    with running(group, spark, shutdown_s=300) as shutdown:
        until(lambda: group.outputs() == exactly([0]), "it runs", within_s=LONG_S)
        monkeypatch.setattr(queries, "POLL_S", 4.0)
        time.sleep(0.5)
        shutdown.request()
        group.send([["ok"]] * 10, first=1)

    run(group, spark)

    assert group.outputs() == exactly(range(11))


@pytest.mark.long
def test_a_replayed_micro_batch_is_not_handled_again(spark: SparkSession, group: Group) -> None:
    """If Spark's last commit is lost, the micro-batch is replayed but no record is handled again."""
    prepare(group, journal=True)
    group.send([[f"until {group.folder / 'flag'}"]] * 10)
    run(group, spark)
    (group.folder / "flag").touch()
    commits = group.folder / "checkpoint" / f"{group.name}.stream" / "commits"
    (commits / "0").unlink()
    (commits / ".0.crc").unlink()

    run(group, spark)

    assert (commits / "0").exists(), "the micro-batch was not run again, which this test is about"
    assert group.outputs() == exactly([])
    assert len(group.cluster.read(group.tier("200ms"))) == 10
    assert audited(group, spark) == {"pending": 10}


def test_a_checkpoint_ahead_of_the_group_is_refused(spark: SparkSession, group: Group) -> None:
    """If Spark would skip unhandled records, the query is refused, and the error names a fix."""
    prepare(group)
    group.send([["ok"]] * 10)
    run(group, spark)
    for partition in range(2):
        group.cluster.commit(group.name, group.source, partition, 0)

    with pytest.raises(PipelineRefusedError, match="would be left out"):
        run(group, spark)
