"""The flights demo by a transformation of DataFrames: the table of `./dev demo`, in a notebook, too."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.flights import data
from tests.pipeline.streaming import LONG_S
from tests.pipeline.test_demo_on_spark import executor_of, runs
from tests.scenarios.cluster import Cluster
from tests.scenarios.demo_runs import DemoRun, counted
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_notebook_has_the_table(
    cluster: Cluster,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One day, in the session of the user. Its cells run in their order."""
    del spark  # the notebook finds it
    monkeypatch.setenv("FLIGHTS_BROKER", cluster.servers)
    monkeypatch.setenv("REDELIVERY_PIPELINE__CHECKPOINT", str(tmp_path))
    monkeypatch.setenv("REDELIVERY_PIPELINE__SCHEDULER", "driver")
    monkeypatch.setattr(sys, "path", [*sys.path])
    notebook = json.loads((EXAMPLES / "flights_dataframe.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert not cell["outputs"], "it is stored without outputs"
                exec(compile("".join(cell["source"]), "notebook", "exec"), names)  # noqa: S102 - it is ours
    finally:
        sys.modules.pop("examples.flights_dataframe", None)  # it has read the environment
        if "query" in names:
            names["query"].stop()
    printed = capsys.readouterr().out
    assert names["accounted_for"], printed
    assert "conservation: every record is accounted for" in printed
    assert f"{counted(1)['records_in']:,}" in printed
    assert "|no plane" in printed


@pytest.mark.long
@pytest.mark.timeout(900)
def test_january_while_the_driver_is_killed(tmp_path: Path) -> None:
    """The example as a program. SIGKILL of its driver in the middle changes nothing in the table."""
    with DemoRun(tmp_path, "--engine", "dataframe") as demo:
        _reaches(demo, "seat_miles", 5_000)
        demo.kill("stream")
        assert demo.process.wait(4 * LONG_S) == 0, demo.stderr
        _has_the_table(demo, data.JANUARY, stream=1)


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_processes_of_a_cluster_are_killed(tmp_path: Path) -> None:
    """Submitted to a master with two workers. An executor and the Python of the driver are killed."""
    with DemoRun(tmp_path, "--days", "10", "--engine", "dataframe-cluster") as demo:
        _reaches(demo, "seat_miles", 1_000)
        executor = executor_of(demo)
        assert executor is not None
        executor.kill()
        until(lambda: not runs(executor), "the executor has ended")
        _reaches(demo, "seat-miles.retry.2s", 300)
        demo.kill("driver")
        assert demo.process.wait(6 * LONG_S) == 0, demo.stderr
        _has_the_table(demo, 10, stream=1)


def _reaches(demo: DemoRun, topic: str, records: int) -> None:
    until(lambda: demo.process.poll() is not None or demo.holds(topic) > records, f"{records} in {topic}", within_s=400)
    assert demo.process.poll() is None, demo.stderr


def _has_the_table(demo: DemoRun, days: int, **restarts: int) -> None:
    found = demo.document()
    assert {name: found[name] for name in ("records_in", "outcomes", "seat_miles")} == counted(days)
    assert found["conservation"] == "ok"
    assert found["restarts"] == {"scheduler": 0, **restarts}
    assert found["lateness_ms"]["early"] == 0
