"""Processes of a query are killed or stopped during a micro-batch: no record is lost or doubled."""

import os
import signal
from collections import Counter
from contextlib import suppress

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.delta_table import files
from tests.pipeline.streaming import LONG_S, Gate, audited, prepare, start
from tests.scenarios.running import Group, Process, exactly, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_PIECE = 30
"""The number of records between two gates; more than one write has."""

_LIMITS = {"batch": 10}


@pytest.mark.long
def test_python_worker_and_driver_are_killed(spark: SparkSession, group: Group) -> None:
    """The query survives a killed Python worker. Then the driver is killed, and its micro-batch is replayed.

    The handler then decides otherwise about what it has failed before, and the outputs go to a table as well. At last
    Ctrl-C comes in the middle of a micro-batch, which is finished.
    """
    sink = {"topic": group.output, "path": "table"}
    prepare(group, journal=True, limits=_LIMITS, pipeline={"sink": sink})
    flag = group.folder / "flag"
    gates = [Gate(group, f"gate{n}") for n in range(4)]
    steps = [["ok"], [f"until {flag}"], ["reject"]] * (_PIECE // 3)
    _send(group, 0, [*steps, [gates[0].step], *steps, [gates[1].step], *steps])
    query = start(group)
    group.scheduler()

    gates[0].reached(query)
    os.kill(_python_worker(query), signal.SIGKILL)
    until(lambda: "is run again" in query.log, "the micro-batch is run again", within_s=LONG_S)
    gates[0].open()
    gates[1].reached(query)
    _kill(query)
    assert "micro-batch 0:" not in query.log, "it was not killed in the middle"
    assert "log4j" not in query.log, "Spark tells how it logs"
    assert group.cluster.read(group.ready, group.tier("200ms")), "nothing has failed that the handler would now do"
    flag.touch()
    gates[1].open()

    query = start(group)
    last = 3 * _PIECE + 2
    rejected = [n for n in range(last) if n % (_PIECE + 1) < _PIECE and n % (_PIECE + 1) % 3 == 2]
    succeeded = [n for n in range(last) if n not in rejected]
    until(lambda: len(group.outputs()) >= len(succeeded), "all is handled", within_s=LONG_S)
    group.settle(LONG_S)
    assert "micro-batch 0:" in query.log, "it was not replayed"
    assert "exception while executing the Python Proxy" not in query.log, "Spark could not tell of it"
    until(lambda: len(_rows(group)) >= len(succeeded), "all is in the table", within_s=LONG_S)

    _send(group, last, [[gates[2].step]])
    gates[2].reached(query)
    _send(group, last + 1, [*[["ok"]] * _PIECE, [gates[3].step], *[["ok"]] * _PIECE])
    gates[2].open()
    gates[3].reached(query)
    os.kill(query.pid, signal.SIGINT)  # goes the way of SIGTERM, unless Spark takes it for itself
    until(lambda: "SIGINT" in query.log, "it has heard of it")
    gates[3].open()

    assert query.wait(60) == 0, query.log[-3000:]
    succeeded += range(last, last + 2 * _PIECE + 2)
    assert group.outputs() == exactly(succeeded)
    assert group.dead() == exactly(rejected)
    rows = _rows(group)
    assert rows == exactly(rows)
    assert {n for n in rows if n < last} == {n for n in succeeded if n < last}
    states = audited(group, spark)
    assert states["recovered"] > 0
    assert states == {
        "acked": len(succeeded) - states["recovered"],
        "recovered": states["recovered"],
        "dead_lettered": len(rejected),
    }


@pytest.mark.long
def test_another_member_takes_the_partitions_over(spark: SparkSession, group: Group) -> None:
    """A second query ends the first during a micro-batch, and a worker ends the second; both report the cause."""
    prepare(group, journal=True, limits=_LIMITS)
    gates = [Gate(group, f"gate{n}") for n in range(2)]
    pieces = [["ok"], ["ok"], ["reject"]] * (_PIECE // 3)
    _send(group, 0, [*pieces, [gates[0].step], *pieces, [gates[1].step], *pieces])
    first = start(group, "first")
    gates[0].reached(first)

    second = start(group, "second")

    assert first.wait(LONG_S) == 6, first.log[-3000:]
    assert "another query" in first.log
    gates[0].open()
    gates[1].reached(second)

    group.worker()
    until(lambda: len(group.cluster.members(group.name)) > 1 or not second.running, "it joins")
    gates[1].open()

    assert second.wait(LONG_S) == 6, second.log[-3000:]
    assert "is served by workers or by one query" in second.log
    numbers = range(3 * _PIECE + 2)
    rejected = [n for n in numbers if n % (_PIECE + 1) < _PIECE and n % (_PIECE + 1) % 3 == 2]
    group.settle(LONG_S)
    group.stop()
    assert group.outputs() == exactly(n for n in numbers if n not in rejected)
    assert group.dead() == exactly(rejected)
    assert audited(group, spark) == {"acked": len(numbers) - len(rejected), "dead_lettered": len(rejected)}


def _send(group: Group, first: int, steps: list[list[str]]) -> None:
    """Send to one partition, so that records before a gate are handled first."""
    group.cluster.produce(group.source, [script(n, do, partition=0) for n, do in enumerate(steps, start=first)])


def _kill(query: Process) -> None:
    """Kill the driver and wait until its tasks have ended: a remaining task could finish the micro-batch."""
    others = psutil.Process(query.pid).children(recursive=True)
    query.kill()
    _, left = psutil.wait_procs(others, timeout=LONG_S)
    assert not left, "processes of a killed driver stay behind"


def _rows(group: Group) -> Counter[int]:
    """Count the records in the table by number."""
    # Each by itself: a folder of the path is no column.
    table = files(group.folder / "table")
    return Counter(int(value) for file in table for value in pq.ParquetFile(file).read()["value"].to_pylist())


def _python_worker(query: Process) -> int:
    """Return a process that runs tasks: a child of Spark's Python daemon and the parent of a handler process."""
    for each in psutil.Process(query.pid).children(recursive=True):
        with suppress(psutil.Error):  # it may just have ended
            if "kafka_redelivery.consumers.handlers.child" in " ".join(each.cmdline()):
                return each.ppid()
    raise AssertionError("no handler runs")
