"""A job submitted as docs/spark.md says runs on the executors, with the submitted settings."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.delta_table import files
from tests.pipeline.submitting import make_environment, spark_daemon, spark_variables, submission
from tests.scenarios.running import Group

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_SUBMITTED = {
    "spark.sql.shuffle.partitions": "3",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.speculation": "true",
    "spark.executor.memory": "512m",
}
_HANDLER = """
import colorsys  # not the one among the job's files

import pyspark

assert "pyspark.zip" in pyspark.__file__, "not PySpark of SPARK_HOME: the archive has to contain it"


def handle(record, context):
    context.send({output!r}, record.raw_value)
"""


@pytest.fixture(params=["local-cluster[2,1,1024]", pytest.param("standalone", marks=pytest.mark.long)])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The master that the job is submitted to, with two workers of one core each."""
    if request.param != "standalone":
        yield request.param
        return
    with ExitStack() as stack:
        url = spark_daemon(stack, tmp_path, "master", r"spark://\S+(?=\n)", "--port", "0")
        for number in range(2):
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}"), url)
            spark_daemon(stack, tmp_path, "worker", "Successfully registered with master", *options)
        yield url


def test_submitted_settings_override_the_configuration(group: Group, master: str) -> None:
    """Master and settings of the command line apply, then those of the file, then the defaults; executors do the work.

    A file of the job does not hide a module of the standard library that has its name.

    The commands are those of docs/spark.md. Only the archive is smaller: its Python is the one of this test.
    """
    (group.folder / "handlers.py").write_text(_HANDLER.format(output=group.output), encoding="utf-8")
    settings = {"spark.master": "local[4]", "spark.sql.shuffle.partitions": 4, "spark.locality.wait": "1s"}
    group.prepare(
        sources=[{"topic": group.source}],
        handler={"callable": "handlers:handle"},
        pipeline={"checkpoint": "checkpoint", "spark": settings, "sink": {"topic": group.output, "path": "table"}},
    )
    group.send([["ok"]] * 20)
    make_environment(group.folder)
    log = group.folder / "events"
    log.mkdir()
    hiding = group.folder / "shipped" / "colorsys.py"
    hiding.parent.mkdir()
    hiding.write_text("raise ImportError('a shipped file hides the standard library')", encoding="utf-8")
    events = {"enabled": "true", "dir": log.as_uri(), "compress": "false", "rolling.enabled": "false"}
    submitted = _SUBMITTED | {f"spark.eventLog.{name}": value for name, value in events.items()}

    job = _submit(group.folder, master, submitted | {"spark.files": hiding.as_uri()})

    assert job.returncode == 0, job.stderr[-5000:]
    assert len(group.cluster.read(group.output)) == 20
    (file,) = log.iterdir()
    happened = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    (environment,) = _events(happened, "EnvironmentUpdate")
    found = environment["Spark Properties"]
    wanted = submitted | {
        "spark.master": master,
        "spark.locality.wait": "1s",
        "spark.sql.session.timeZone": "UTC",
        "spark.app.name": group.name,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert {each["Executor ID"] for each in _events(happened, "ExecutorAdded")} == {"0", "1"}
    assert {each["Task Info"]["Executor ID"] for each in _events(happened, "TaskEnd")} <= {"0", "1"}
    assert files(group.folder / "table")


def _events(happened: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in happened if each["Event"] == f"SparkListener{name}"]


def _submit(folder: Path, master: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Handle what exists now."""
    return subprocess.run(
        ["/bin/bash", "-euc", submission(master, settings) + " --available-now"],
        cwd=folder,
        env=os.environ | spark_variables(folder / "spark"),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
