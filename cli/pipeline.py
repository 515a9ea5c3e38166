"""`redelivery pipeline`: the jobs that run on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.archive import archive
from cli.audit import audit
from cli.options import (
    DEFAULT_CONFIG,
    ConfigFile,
    LogForm,
    LogFormOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    load,
)
from cli.report import report

app = typer.Typer(help="Jobs that run on Spark.", no_args_is_help=True)
app.command()(archive)
app.command()(audit)
app.command()(report)


@app.command()
def stream(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when all that is there now has been handled once.")
    ] = False,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormOption = LogForm.TEXT,
) -> None:
    """Handle the records of the sources in a Spark streaming query until SIGTERM or Ctrl-C."""
    from cli.run import begin_log
    from pipeline.stream import run_stream

    begin_log(log_level, log_format)
    run_stream(load(config, overrides), config.absolute().parent, available_now=available_now)
