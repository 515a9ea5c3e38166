"""The demo with a streaming query instead of a worker has the same result, also if the query is killed."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.scenarios.demo_runs import DemoRun, counted
from tests.scenarios.waiting import until

pytestmark = pytest.mark.spark

_LONG_S = 300.0


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.full
@pytest.mark.timeout(900)
def test_it_is_killed_in_the_middle(tmp_path: Path) -> None:
    """SIGKILL of the driver ends its JVM and Python workers. The next driver continues, and no record is lost."""
    with DemoRun(tmp_path, "--days", "1", "--engine", "spark") as demo:
        until(lambda: demo.process.poll() is not None or demo.holds("seat_miles"), "seat-miles", within_s=_LONG_S)
        assert demo.process.poll() is None, demo.stderr
        pid = demo.pid("stream")
        assert pid is not None
        below = psutil.Process(pid).children(recursive=True)
        assert any("java" in process.name() for process in below)
        demo.kill("stream")
        until(lambda: not any(map(runs, below)), "nothing of it is left")

        assert demo.end() == 0, demo.stderr
        found = demo.document()
        assert {name: found[name] for name in ("records_in", "outcomes", "seat_miles")} == counted(1)
        assert found["conservation"] == "ok"
        assert (found["engine"], found["restarts"]) == ("spark", {"stream": 1, "scheduler": 0})
        assert found["lateness_ms"]["early"] == 0
        assert "on Spark each waits for the next micro-batch" in demo.stdout


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("days", [10, pytest.param(365, marks=pytest.mark.full)])
def test_processes_of_a_cluster_are_killed(tmp_path: Path, days: int) -> None:
    """The query is submitted to a master with two workers. An executor, the driver's JVM and its Python are killed."""
    with DemoRun(tmp_path, "--days", str(days), "--engine", "spark-cluster") as demo:

        def reaches(topic: str, records: int) -> None:
            until(
                lambda: demo.process.poll() is not None or demo.holds(topic) > records,
                f"{records} records in {topic}",
                within_s=_LONG_S + days,
            )
            assert demo.process.poll() is None, demo.stderr

        reaches("seat_miles", 100 * days)  # of about 800 a day, while flights have their first delivery
        executor = executor_of(demo)
        assert executor is not None
        executor.kill()
        until(lambda: executor_of(demo) not in {None, executor}, "the worker starts another executor")

        for role, topic in (("stream", "seat-miles.retry.2s"), ("driver", "seat-miles.retry.4s")):
            reaches(topic, 30 * days)
            pid = demo.pid("stream")
            assert pid is not None
            driver = psutil.Process(pid)
            below = driver.children(recursive=True)
            assert [process.pid for process in below if "python" in process.name()] == [demo.pid("driver")]
            demo.kill(role)
            until(lambda: not any(map(runs, [driver, *below])), "nothing of the driver is left")  # noqa: B023 - it is called here
            until(lambda: demo.pid("driver"), "its successor runs", within_s=_LONG_S)

        assert demo.process.wait(_LONG_S * 3 + 5 * days) == 0, demo.stderr
        found = demo.document()
        assert {name: found[name] for name in ("records_in", "outcomes", "seat_miles")} == counted(days)
        assert found["conservation"] == "ok"
        assert (found["engine"], found["restarts"]) == ("spark-cluster", {"stream": 2, "scheduler": 0})
        assert found["lateness_ms"]["early"] == 0


def executor_of(demo: DemoRun) -> psutil.Process | None:
    """Return the executor of the first worker of the cluster; ``None`` if it has none now."""
    pid = demo.pid("spark-worker-1")
    assert pid is not None
    for each in psutil.Process(pid).children():
        # It may just have ended, and the shell of `spark-class`, which has become the worker, leaves a dead child.
        with suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in each.cmdline()):
                return each
    return None


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_unsuitable_java_is_reported_before_anything_starts(tmp_path: Path) -> None:
    """The message lists the candidates and a package to install. There is no traceback, and no file stays behind."""
    bare = {**os.environ, "JAVA_HOME": str(tmp_path / "none"), "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "examples.flights", "--engine", "spark", "--keep", str(tmp_path / "run")]
    ended = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("demo: no Java that Spark runs on: JAVA_HOME: ")
    assert "PATH: none" in ended.stderr
    assert "openjdk-17-jre-headless" in ended.stderr
    assert not (tmp_path / "run").exists()
