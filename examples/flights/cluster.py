"""A standalone Spark cluster on this machine, and the streaming query that is submitted to it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from examples.flights.roles import Role, broker, with_settings
from examples.flights.wire import HERE
from kafka_redelivery.pipeline.spark.jars import CONNECTOR
from kafka_redelivery.pipeline.spark.session import find_spark_java

WORKERS: Final = 2
"""Each has one core, so the query has one executor on each."""

_HOST: Final = "127.0.0.1"
_DRIVER_PID: Final = "driver.pid"

# spark-submit starts a JVM, and the JVM starts Python with this file. SIGTERM has to go to Python: the JVM would end in
# the middle of a micro-batch.
_RUN: Final = f"""\
import os
from pathlib import Path

Path(__file__).with_name("{_DRIVER_PID}").write_text(str(os.getpid()))
"""
_COMMAND: Final = """\
from kafka_redelivery.cli.main import app

app()
"""
_EXAMPLE: Final = HERE.parent / "flights_dataframe.py"
_DATAFRAME: Final = f"""\
import runpy

runpy.run_path({str(_EXAMPLE)!r}, run_name="__main__")
"""


def cluster_roles(directory: Path) -> list[Role]:
    """Return the master and its workers, in the order in which they start.

    Args:
        directory: the workers' folders are made there.
    """
    port = _free_port()
    master = ["--host", _HOST, "--port", str(port), "--webui-port", "0"]
    roles = [Role("spark-master", _daemon("master.Master", *master), _variables(), port=port)]
    for number in range(1, WORKERS + 1):
        name = f"spark-worker-{number}"
        options = ["--host", _HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        command = _daemon("worker.Worker", *options, "--work-dir", str(directory / name), f"spark://{_HOST}:{port}")
        roles.append(Role(name, command, _variables()))
    return roles


def submitted_query(directory: Path, master: Role, servers: str, checkpoint: Path) -> Role:
    """Return the query, submitted as docs/spark.md says.

    All processes run on one machine, so executors find this Python, the handler and its schemas where they are, and
    nothing has to be sent to them.

    Args:
        directory: what is submitted is written there.
        master: from :func:`cluster_roles`.
        servers: where Kafka is.
        checkpoint: the folder of the checkpoint.

    Raises:
        TransportError: a jar of Spark's Kafka connector cannot be downloaded or fails its check.
    """
    options = with_settings(("pipeline", "stream"), f"pipeline.checkpoint={checkpoint}")
    return _submitted(directory, master, _COMMAND, broker(servers), options, {"PYTHONPATH": str(HERE)})


def submitted_dataframe_query(directory: Path, master: Role, servers: str, checkpoint: Path) -> Role:
    """Return the query of DataFrames; otherwise as :func:`submitted_query`."""
    return _submitted(directory, master, _DATAFRAME, _of_dataframe(checkpoint, servers))


def dataframe_query(checkpoint: Path, servers: str) -> Role:
    """Return the query of DataFrames, whose driver has its executors in its own process."""
    return Role("stream", [sys.executable, _EXAMPLE], {**_variables(), **_of_dataframe(checkpoint, servers)})


def _of_dataframe(checkpoint: Path, servers: str) -> dict[str, str]:
    return {**broker(servers), "REDELIVERY_PIPELINE__CHECKPOINT": str(checkpoint)}


def _submitted(
    directory: Path,
    master: Role,
    program: str,
    variables: Mapping[str, str],
    options: Sequence[str | Path] = (),
    of_executors: Mapping[str, str] = MappingProxyType({}),
) -> Role:
    """Return a program that is submitted; executors and driver have the variables."""
    both = {**variables, **of_executors}
    run = directory / "run.py"
    run.write_text(_RUN + program, encoding="utf-8")
    command = [
        _spark_home() / "bin" / "spark-submit",
        *("--master", f"spark://{_HOST}:{master.port}"),
        *("--jars", ",".join(map(str, CONNECTOR.paths()))),
        *(word for name, value in both.items() for word in ("--conf", f"spark.executorEnv.{name}={value}")),
        run,
        *options,
    ]
    return Role("stream", command, {**_variables(), **variables}, told_to_stop=_DRIVER_PID)


def _daemon(name: str, *options: str) -> Sequence[str | Path]:
    return [_spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *options]


def _variables() -> dict[str, str]:
    return {
        "JAVA_HOME": str(find_spark_java()),
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": _HOST,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _spark_home() -> Path:
    import pyspark  # noqa: PLC0415 - not needed for workers

    return Path(pyspark.__file__).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
