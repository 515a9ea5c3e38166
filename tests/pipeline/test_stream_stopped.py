"""A query that is stopped with all its processes finishes its micro-batch."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from tests.pipeline.streaming import LONG_S, Gate, prepare
from tests.scenarios.running import COMMAND, Group, exactly, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.long
def test_sigterm_to_every_process(group: Group) -> None:
    """SIGTERM to driver, JVM, Python workers and handlers, as systemd sends it: the query exits with 0."""
    prepare(group, limits={"batch": 10, "shutdownTimeout": "90s"}, pipeline={"spark": {"spark.master": "local[2]"}})
    gate = Gate(group, "gate")
    group.cluster.produce(
        group.source,
        [script(n, do, partition=0) for n, do in enumerate([*[["ok"]] * 30, [gate.step], *[["ok"]] * 30])],
    )
    log = group.folder / "query.log"
    with log.open("wb") as output:
        query = subprocess.Popen(
            [sys.executable, *COMMAND, "pipeline", "stream", "--config", str(group.file)],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    processes = [psutil.Process(query.pid)]
    try:
        until(lambda: gate.held or query.poll() is not None, "a handler has the record", within_s=LONG_S)
        processes += processes[0].children(recursive=True)
        os.killpg(query.pid, signal.SIGTERM)
        for each in processes[1:]:
            with suppress(psutil.NoSuchProcess):
                each.terminate()
        until(lambda: b"SIGTERM: stopping" in log.read_bytes() or query.poll() is not None, "it stops", within_s=LONG_S)
        gate.open()

        assert query.wait(LONG_S) == 0, log.read_text(encoding="utf-8")[-5000:]
        assert group.outputs() == exactly(range(61))
        _, left = psutil.wait_procs(processes[1:], timeout=LONG_S)
        assert not left, "processes of the query stay behind"
    finally:
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        query.wait()
