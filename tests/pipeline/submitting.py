"""What a job needs that is submitted to a Spark cluster: the daemons of a standalone cluster, and an environment."""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pyspark

from kafka_redelivery.pipeline.spark.session import find_spark_java
from tests.scenarios.waiting import until


def spark_daemon(stack: ExitStack, folder: Path, role: str, started: str, *arguments: str) -> str:
    """Run a Spark master or worker until the end of the stack; return what ``started`` matches in its log."""
    home = Path(pyspark.__file__).parent
    log = folder / f"{role}-{len(list(folder.glob('*.log')))}.log"
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}.{role.title()}"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            stdout=output,
            stderr=output,
            env=os.environ | spark_variables(home),
        )
    stack.callback(daemon.wait)
    stack.callback(daemon.terminate)
    found = until(lambda: re.search(started, log.read_text(encoding="utf-8")), f"{role} logs {started}")
    assert found is not None
    return found[0]


def make_environment(folder: Path) -> None:
    """Make what the first commands of the documentation make: ``environment``, its archive and ``run.py``."""
    (folder / "environment").symlink_to(sys.prefix)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    # Executors work below SPARK_HOME.
    home = folder / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)


def submission(master: str, settings: Mapping[str, str]) -> str:
    """Return the commands of docs/spark.md that submit a query, with another master and more settings."""
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    commands = re.search(r"^    echo .*?^    jars=.*? run\.py pipeline stream [^\n]*$", text, re.MULTILINE | re.DOTALL)
    assert commands is not None
    assert "--master spark://... " in commands[0]
    more = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    return commands[0].replace("--master spark://... ", f"--master '{master}' {more} ")


def spark_variables(home: Path) -> dict[str, str]:
    """Return the environment variables of a Spark on this machine."""
    return {"JAVA_HOME": str(find_spark_java()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
