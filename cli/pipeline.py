"""`redelivery pipeline`: the jobs that run on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import exit_codes
from cli.archive import archive
from cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    LogForm,
    LogFormOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    load,
)

if TYPE_CHECKING:
    from pipeline.audit_range import Edge

app = typer.Typer(help="Jobs that run on Spark.", no_args_is_help=True)
app.command()(archive)

_EDGE = "an offset, a time (2026-11-01T08:00:00Z), or TOPIC-PARTITION@OFFSET, several times"


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


@app.command()
def audit(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
    *,
    begin: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="EDGE", help=f"Where to begin: {_EDGE}. Default: what is kept."),
    ] = None,
    end: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="EDGE", help="Where to end, exclusive. Default: up to where the group has read."),
    ] = None,
    journal: Annotated[
        bool, typer.Option("--journal/--no-journal", help="Whether to believe the journal, where it is on.")
    ] = True,
    listed: Annotated[int, typer.Option("--list", min=0, help="List so many of what is missing or doubled.")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write all of them there, a JSON object a line.")
    ] = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Account for every record of the sources, from the topics alone. Exit code 1 if any is missing or doubled."""
    from cli.audit_view import print_audit
    from cli.output import print_json, stderr, stdout
    from pipeline.audit import AuditOptions, audit
    from pipeline.session import spark_session

    settings = load(config, overrides)
    options = AuditOptions(
        first=_edge(begin, "--from"), end=_edge(end, "--to"), journal=journal, listed=listed, output=output
    )
    console = stderr()
    own = {} if settings.pipeline is None else {name: str(value) for name, value in settings.pipeline.spark.items()}
    own["spark.log.level"] = "DEBUG" if log_level is LogLevel.DEBUG else "ERROR"
    with console.status("starting Spark") as status, spark_session("redelivery audit", own) as spark:
        result = audit(spark, settings, options, tell=status.update)
    if as_json:
        print_json(result.document(None if output is None else str(output)))
    else:
        print_audit(stdout(), result, None if output is None else str(output))
    if not result.conserved:
        raise typer.Exit(exit_codes.FAILED)


def _edge(texts: list[str] | None, option: str) -> Edge | None:
    from pipeline.audit_range import EdgeError, parse_edge

    try:
        return parse_edge(texts or ())
    except EdgeError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
