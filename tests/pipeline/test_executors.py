"""A query goes on when one of its two executors is killed, here while a producer has a transaction open."""

import os
import time
from contextlib import suppress

import psutil
import pytest

from tests.pipeline.streaming import LONG_S
from tests.pipeline.submitting import make_environment, spark_variables, submission
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, Process
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

_START_S = 400
"""What a submitted query may take until it handles records, on a busy machine."""

_OPEN_S = 40
"""How long the transaction is open, within the 60 s after which the broker aborts it."""

_HANDLER = """
import psutil


def handle(record, context):
    executor = next(each for each in psutil.Process().parents() if each.name() == "java")
    context.send({output!r}, record.raw_value, key=b"%d" % executor.pid)
"""


def test_an_executor_is_killed_while_a_transaction_is_open(group: Group) -> None:
    """The partition moves to the other executor. Each record is handled once, none before its transaction has ended."""
    (group.folder / "handlers.py").write_text(_HANDLER.format(output=group.output), encoding="utf-8")
    handler = {"callable": "handlers:handle"}
    group.prepare(sources=[{"topic": group.source}], handler=handler, pipeline={"checkpoint": "checkpoint"})
    make_environment(group.folder)
    script = submission("local-cluster[2,1,1024]", {"spark.executor.memory": "512m"})
    command = ["-c", "import os, sys; os.chdir(sys.argv[1]); os.execv('/bin/bash', ['bash', '-euc', sys.argv[2]])"]
    variables = os.environ | spark_variables(group.folder / "spark")
    _send(group, range(10))
    query = Process("query", [*command, str(group.folder), script], variables, group.folder / "query.log")
    group.processes.append(query)
    until(lambda: len(_seen(group)) == 10 or not query.running, "the query runs", within_s=_START_S)
    assert query.running, query.log[-3000:]
    executor = next(key for number, key in _seen(group) if number == 8)

    opened_s = time.monotonic()
    upstream = group.cluster.begin(group.source, [Sent(b"%d" % n, partition=0) for n in range(100, 110, 2)])
    _send(group, range(10, 20))
    until(lambda: {n for n, _ in _seen(group)} >= {*range(11, 20, 2)}, "the other partition goes on", within_s=LONG_S)
    psutil.Process(int(executor or 0)).kill()
    _send(group, range(20, 30))
    until(lambda: {n for n, _ in _seen(group)} >= {*range(21, 30, 2)}, "also after the kill", within_s=LONG_S)
    time.sleep(max(0.0, opened_s + _OPEN_S - time.monotonic()))
    early = {n for n, _ in _seen(group)}
    upstream.commit_transaction(30)

    wanted = sorted([*range(30), *range(100, 110, 2)])
    until(lambda: len(_seen(group)) >= len(wanted) or not query.running, "all is handled", within_s=LONG_S)
    driver = next(each for each in psutil.Process(query.pid).children(recursive=True) if _is_driver(each))
    driver.terminate()
    assert query.wait(LONG_S) == 0, query.log[-3000:]
    group.cluster.wait_for_markers(group.output)
    assert sorted(n for n, _ in _seen(group)) == wanted
    assert not early & {*range(10, 30, 2), *range(100, 110, 2)}, "behind an open transaction nothing can be read"
    assert executor not in {key for number, key in _seen(group) if number >= 20}


def _send(group: Group, numbers: range) -> None:
    group.cluster.produce(group.source, [Sent(b"%d" % n, partition=n % 2) for n in numbers])


def _seen(group: Group) -> list[tuple[int, bytes | None]]:
    """Return the number of each record that was handled, and the process id of its executor."""
    return [(int(record.value or b""), record.key) for record in group.cluster.read(group.output)]


def _is_driver(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() != "java" and any(each.endswith("run.py") for each in process.cmdline())
    return False
