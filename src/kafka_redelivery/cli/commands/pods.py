"""`redelivery pipeline driver` and `redelivery pipeline executor`: the pods of Spark on Kubernetes."""

from __future__ import annotations

import os
import tempfile

import typer

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""All arguments but a leading ``--help`` belong to ``spark-submit``."""


def driver(context: typer.Context) -> None:
    """Run the driver of a job. Spark on Kubernetes calls this in its pod, with the arguments of spark-submit."""
    from kafka_redelivery.pipeline.spark.java import find_spark_java
    from kafka_redelivery.pipeline.spark.pods import driver_command, spark_home

    home = spark_home()
    command = driver_command(os.environ, home, context.args)
    places = {"SPARK_HOME": str(home), "JAVA_HOME": str(find_spark_java())}
    os.execve(command[0], command, {**os.environ, **places})  # noqa: S606 - no shell is wanted


def executor() -> None:
    """Run an executor. Spark on Kubernetes calls this in each executor's pod.

    It works in a new folder among those that Spark may write, because the files of the job are put there.
    """
    from kafka_redelivery.pipeline.spark.java import find_spark_java
    from kafka_redelivery.pipeline.spark.pods import executor_command, spark_home

    home = spark_home()
    command = executor_command(os.environ, home, find_spark_java())
    folders = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    os.chdir(tempfile.mkdtemp(prefix="executor-", dir=folders.split(",")[0]))
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})  # noqa: S606 - no shell is wanted
