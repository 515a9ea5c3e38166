"""`redelivery pipeline`: jobs on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_redelivery.cli.commands.archive import archive
from kafka_redelivery.cli.commands.audit import audit
from kafka_redelivery.cli.commands.erase import erase
from kafka_redelivery.cli.commands.pods import PASSED_ON, driver, executor
from kafka_redelivery.cli.commands.report import report
from kafka_redelivery.cli.commands.signals import exit_on_signals
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    ConfigFile,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    duration,
    load,
)

app = typer.Typer(help="Run jobs on Spark.", no_args_is_help=True)
app.command()(archive)
app.command()(audit)
app.command()(erase)
app.command()(report)
app.command(context_settings=PASSED_ON)(driver)
app.command()(executor)


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
    from kafka_redelivery.cli.commands.run import begin_log
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
