"""A streaming query handles sources and ready topics under the group's policy."""

import time
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from pipeline import stream
from pipeline.archive_errors import TableFormatError
from pipeline.errors import StreamRefusedError
from tests.pipeline.streaming import LONG_S, Gate, audited, prepare, run, running
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_each_record_has_one_outcome(spark: SparkSession, group: Group) -> None:
    """Successes are emitted, failures wait in their tier or are dead letters, each once; a second run finds nothing."""
    prepare(group)
    group.send([["ok"]] * 50 + [["raise", "ok"]] * 5 + [["reject"]] * 3 + [["kill"]] * 2)

    run(group, spark)

    assert group.outputs() == exactly(range(50))
    assert group.dead() == exactly(range(55, 58))
    waiting = group.cluster.read(group.tier("200ms"))
    assert len(waiting) == 7
    assert Counter(record.header("JMSXDeliveryCount") for record in waiting) == {"1": 7}

    run(group, spark)

    assert group.outputs() == exactly(range(50))


def test_a_vectorised_handler_fails_single_rows(spark: SparkSession, group: Group) -> None:
    """Of rows handled together only the bad ones fail: those named, those that raise, kill, or send to nowhere."""
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
    """What handlers send to the outcome topic is appended to a table, each record once, over several runs.

    It is not appended to in another format: readers of either would find a part of the records.
    """
    sink = {"topic": group.output, "path": "table"}
    prepare(group, pipeline={"checkpoint": "checkpoint", "sink": sink})
    group.send([["ok"]] * 20 + [["reject"]])
    run(group, spark)
    group.send([["ok"]] * 10, first=30)
    run(group, spark)

    rows = spark.read.parquet(str(group.folder / "table")).collect()

    assert Counter(int(row.value) for row in rows) == exactly([*range(20), *range(30, 40)])
    assert {row.day for row in rows} == {row.timestamp.date() for row in rows}
    group.configure(pipeline={"checkpoint": "checkpoint", "sink": sink | {"format": "delta"}})
    with pytest.raises(TableFormatError, match=r"of the format parquet, not delta; .*pipeline\.sink\.format"):
        run(group, spark)


@pytest.mark.long
def test_a_micro_batch_that_takes_too_long_is_given_up(spark: SparkSession, group: Group) -> None:
    """The query ends in time, as if nothing had happened; what was not committed is handled by the next one, once."""
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
def test_a_micro_batch_that_would_begin_at_the_end_does_not(
    spark: SparkSession, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is asked for between two micro-batches, and records come before the query has stopped."""
    prepare(group)
    group.send([["ok"]])
    with running(group, spark, shutdown_s=300) as stop:
        until(lambda: group.outputs() == exactly([0]), "it runs", within_s=LONG_S)
        monkeypatch.setattr(stream, "_LOOK_S", 4.0)
        time.sleep(0.5)
        stop.ask()
        group.send([["ok"]] * 10, first=1)

    run(group, spark)

    assert group.outputs() == exactly(range(11))


@pytest.mark.long
def test_a_replayed_batch_is_not_decided_again(spark: SparkSession, group: Group) -> None:
    """Spark's last commit is lost and the handler would now decide otherwise: nothing is handled a second time."""
    prepare(group, journal=True)
    group.send([[f"until {group.folder / 'flag'}"]] * 10)
    run(group, spark)
    (group.folder / "flag").touch()
    commits = group.folder / "checkpoint" / "stream" / "commits"
    (commits / "0").unlink()
    (commits / ".0.crc").unlink()

    run(group, spark)

    assert (commits / "0").exists(), "the micro-batch was not run again, which this test is about"
    assert group.outputs() == exactly([])
    assert len(group.cluster.read(group.tier("200ms"))) == 10
    assert audited(group, spark) == {"pending": 10}


def test_a_checkpoint_ahead_of_the_group_is_refused(spark: SparkSession, group: Group) -> None:
    """Where Spark would begin behind records that nobody has handled, the query is refused and says what to do."""
    prepare(group)
    group.send([["ok"]] * 10)
    run(group, spark)
    for partition in range(2):
        group.cluster.commit(group.name, group.source, partition, 0)

    with pytest.raises(StreamRefusedError, match="would be left out"):
        run(group, spark)
