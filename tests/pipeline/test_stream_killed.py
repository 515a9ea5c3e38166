"""Processes of a streaming query are killed in the middle of a micro-batch: nothing is lost, nothing doubled."""

import os
import signal
from contextlib import suppress

import psutil
import pytest

from tests.pipeline.streaming import prepare, start
from tests.scenarios.running import Group, Process, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

RECORDS = 300


def test_python_worker_and_driver_are_killed(group: Group) -> None:
    """First the Python process of a task, which the query survives, then the driver, which is started again."""
    prepare(group, pipeline={"sink": {"topic": group.output, "path": "table", "trigger": "1s"}})
    group.send([["sleep 0.02"], ["sleep 0.02"], ["reject"]] * (RECORDS // 3))
    query = start(group)
    _wait_for(group, 10)

    os.kill(_python_worker(query), signal.SIGKILL)
    until(lambda: "is run again" in query.log, "the micro-batch is run again")
    _wait_for(group, len(group.outputs()) + 20)

    query.kill()
    query = start(group)
    _wait_for(group, RECORDS * 2 // 3)
    group.settle()
    query.stop()

    assert group.outputs() == exactly(n for n in range(RECORDS) if n % 3 < 2)
    assert group.dead() == exactly(n for n in range(RECORDS) if n % 3 == 2)


def test_the_newer_of_two_queries_goes_on(group: Group) -> None:
    """A second query of a group takes over: the first one ends and says why, and every record has one outcome."""
    prepare(group)
    group.send([["sleep 0.02"]] * RECORDS)
    first = start(group, "first")
    _wait_for(group, 10)

    second = start(group, "second")

    assert first.wait(90) == 6, first.log
    assert "another query" in first.log
    _wait_for(group, RECORDS)
    os.kill(second.pid, signal.SIGINT)  # Ctrl-C, which Spark would take for itself
    assert second.wait(60) == 0, second.log
    assert group.outputs() == exactly(range(RECORDS))


def _wait_for(group: Group, outputs: int) -> None:
    until(lambda: len(group.outputs()) >= outputs, f"{outputs} outputs", within_s=90)


def _python_worker(query: Process) -> int:
    """A process that runs tasks: a child of Spark's Python daemon, and parent of the handler's process."""
    for each in psutil.Process(query.pid).children(recursive=True):
        with suppress(psutil.Error):  # it may just have ended
            if "pipeline.handler_child" in " ".join(each.cmdline()):
                return each.ppid()
    raise AssertionError("no handler runs")
