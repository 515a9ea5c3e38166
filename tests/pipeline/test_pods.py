"""Our image runs the pods of Spark on Kubernetes: a driver and an executor as Spark starts them there.

There is no Kubernetes here, so the driver asks a standalone master without workers for executors. The test starts the
executor instead, with the environment that Spark gives an executor's pod.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kafka_redelivery.pipeline.spark.jars import CONNECTOR
from tests.pipeline.submitting import spark_daemon
from tests.scenarios.running import COMMAND, Group
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_HANDLER = """
import os


def handle(record, context):
    context.send({output!r}, os.environ["ROLE_OF_THE_POD"].encode())
"""
_JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch", "jdk.internal.ref")
    ),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
)
"""Spark's own options for Java 17, which it passes to each executor in numbered variables."""


@pytest.mark.long
def test_a_job_runs_on_an_executor_of_the_image(group: Group, tmp_path: Path) -> None:
    """The driver registers the executor, which runs the handler with its own environment; both end with the job."""
    (group.folder / "handlers.py").write_text(_HANDLER.format(output=group.output), encoding="utf-8")
    group.prepare(
        sources=[{"topic": group.source}],
        handler={"callable": "handlers:handle"},
        pipeline={"checkpoint": "checkpoint"},
    )
    group.send([["ok"]] * 20)
    (group.folder / "run.py").write_text("from kafka_redelivery.cli.main import app; app()", encoding="utf-8")
    with ExitStack() as stack:
        master = spark_daemon(stack, tmp_path, "master", r"spark://\S+(?=\n)", "--port", "0")
        port = str(free_port())
        properties = {
            "spark.master": master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.port": port,
            "spark.jars": ",".join(map(str, CONNECTOR.paths())),
            "spark.executor.memory": "512m",
            "spark.log.level": "INFO",
        }
        file = tmp_path / "spark.properties"
        file.write_text("".join(f"{name} {value}\n" for name, value in properties.items()), encoding="utf-8")
        job = ["--properties-file", str(file), "--class", "org.apache.spark.deploy.PythonRunner", "run.py"]
        run = [*job, "pipeline", "stream", "--config", "redelivery.yaml", "--available-now"]
        address = {"SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1", "ROLE_OF_THE_POD": "driver"}
        driver = stack.enter_context(_pod(tmp_path / "driver.log", group.folder, address, "driver", *run))
        found = until(
            lambda: (
                re.search(r"app-\d+-\d+", (tmp_path / "driver.log").read_text(encoding="utf-8"))
                or driver.poll() is not None
            ),
            "the driver runs",
            within_s=120,
        )
        assert isinstance(found, re.Match), (tmp_path / "driver.log").read_text(encoding="utf-8")[-3000:]
        pod = {
            "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@127.0.0.1:{port}",
            "SPARK_EXECUTOR_ID": "7",
            "SPARK_EXECUTOR_CORES": "2",
            "SPARK_EXECUTOR_MEMORY": "512m",
            "SPARK_APPLICATION_ID": found[0],
            "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
            "SPARK_EXECUTOR_POD_NAME": "job-exec-7",
            "SPARK_RESOURCE_PROFILE_ID": "0",
            "SPARK_LOCAL_DIRS": str(tmp_path),
            "ROLE_OF_THE_POD": "executor",
            "PYTHONPATH": os.pathsep.join([str(group.folder), *sys.path]),
            **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(_JAVA_OPTIONS)},
        }
        executor = stack.enter_context(_pod(tmp_path / "executor.log", tmp_path, pod, "executor"))
        assert driver.wait(240) == 0, (tmp_path / "driver.log").read_text(encoding="utf-8")[-3000:]
        executor.wait(60)
    assert {record.value for record in group.cluster.read(group.output)} == {b"executor"}
    assert len(group.cluster.read(group.output)) == 20
    assert list(tmp_path.glob("executor-*")), "it works in a folder of its own"


@pytest.mark.parametrize(
    ("role", "missing"), [("driver", "SPARK_DRIVER_BIND_ADDRESS"), ("executor", "SPARK_EXECUTOR_MEMORY")]
)
def test_outside_of_kubernetes_it_says_what_is_missing(role: str, missing: str) -> None:
    """There is a message and the exit code of a wrong configuration."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    command = [sys.executable, *COMMAND, "pipeline", role]
    answer = subprocess.run(command, env=outside, capture_output=True, text=True, check=False)
    assert answer.returncode == 3
    assert missing in answer.stderr
    assert "Traceback" not in answer.stderr


@contextmanager
def _pod(log: Path, folder: Path, environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the image's command, until the end of the block at the latest."""
    given = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    command = [sys.executable, *COMMAND, "pipeline", *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=folder, env=given, stdout=output, stderr=output) as pod,
    ):
        try:
            yield pod
        finally:
            pod.terminate()
