"""`redelivery pipeline`: jobs on Spark."""

from __future__ import annotations

import os
import tempfile
from typing import Annotated, Final

import typer

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.commands.archive import Archiving, convert, erase
from kafka_redelivery.cli.commands.audit import Audit
from kafka_redelivery.cli.commands.report import MakeReport
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    ConfigFile,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    begin_log,
    duration,
    load,
)
from kafka_redelivery.consumers.process.signals import exit_on_signals

_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""All arguments but a leading ``--help`` belong to ``spark-submit``."""

app = Commands(help="Run jobs on Spark.", no_args_is_help=True)
app.command(name="archive")(Archiving)
app.command()(Audit)
app.command()(convert)
app.command()(erase)
app.command(name="report")(MakeReport)


@app.command()
def stream(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop after one delivery of every record that is there now.")
    ] = False,
    until_settled: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --available-now: go on until no record waits, at most this long. Exit code 7: some still wait.",
        ),
    ] = None,
    skip_removed: Annotated[
        bool,
        typer.Option(
            "--skip-removed",
            help="Continue the table of pipeline.sink without records that Kafka removed before the append.",
        ),
    ] = False,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Handle the records of the sources in a Spark streaming query, until SIGTERM or Ctrl-C."""
    exit_on_signals()
    from kafka_redelivery.pipeline.stream.stream import run_stream

    within = None if until_settled is None else duration(until_settled, "--until-settled")
    if within is not None and not available_now:
        raise typer.BadParameter("add --available-now; without it the query never ends", param_hint="--until-settled")
    begin_log(log_level, log_format)
    run_stream(
        load(config, overrides),
        config.absolute().parent,
        available_now=available_now,
        until_settled=within,
        skip_removed=skip_removed,
    )


@app.command(context_settings=_PASSED_ON)
def driver(context: typer.Context) -> None:
    """Run the driver of a job. Spark on Kubernetes calls this in its pod, with the arguments of spark-submit."""
    from kafka_redelivery.pipeline.spark.pods import driver_command, spark_home
    from kafka_redelivery.pipeline.spark.session import find_spark_java

    home = spark_home()
    command = driver_command(os.environ, home, context.args)
    places = {"SPARK_HOME": str(home), "JAVA_HOME": str(find_spark_java())}
    os.execve(command[0], command, {**os.environ, **places})  # noqa: S606 - no shell is wanted


@app.command()
def executor() -> None:
    """Run an executor. Spark on Kubernetes calls this in each executor's pod.

    It works in a new folder among those that Spark may write, because the files of the job are put there.
    """
    from kafka_redelivery.pipeline.spark.pods import executor_command, spark_home
    from kafka_redelivery.pipeline.spark.session import find_spark_java

    home = spark_home()
    command = executor_command(os.environ, home, find_spark_java())
    folders = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    os.chdir(tempfile.mkdtemp(prefix="executor-", dir=folders.split(",")[0]))
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})  # noqa: S606 - no shell is wanted
