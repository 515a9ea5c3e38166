"""A standalone Spark cluster on this machine, and the streaming query that is submitted to it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
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

from kafka_redelivery.cli.main import app

Path(__file__).with_name("{_DRIVER_PID}").write_text(str(os.getpid()))
app()
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


def submitted_query(directory: Path, master: Role, servers: str, settings: Sequence[str]) -> Role:
    """Return the query, submitted as docs/spark.md says.

    All processes run on one machine, so executors find this Python, the handler and its schemas where they are, and
    nothing has to be sent to them.

    Args:
        directory: what is submitted is written there.
        master: from :func:`cluster_roles`.
        servers: where Kafka is.
        settings: in addition to the configuration file.

    Raises:
        TransportError: a jar of Spark's Kafka connector cannot be downloaded or fails its check.
    """
    run = directory / "run.py"
    run.write_text(_RUN, encoding="utf-8")
    variables = {**broker(servers), "PYTHONPATH": str(HERE)}
    command = [
        _spark_home() / "bin" / "spark-submit",
        *("--master", f"spark://{_HOST}:{master.port}"),
        *("--jars", ",".join(map(str, CONNECTOR.paths()))),
        *(word for name, value in variables.items() for word in ("--conf", f"spark.executorEnv.{name}={value}")),
        run,
        *with_settings(("pipeline", "stream"), *settings),
    ]
    return Role("stream", command, {**_variables(), **broker(servers)}, told_to_stop=_DRIVER_PID)


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
