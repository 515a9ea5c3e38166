"""`redelivery pipeline audit`: what became of every record, and which are missing or doubled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import exit_codes
from cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, LogLevel, LogLevelOption, Overrides, load
from cli.spark import SparkSettings, spark_settings, table_place
from pipeline.table_format import TableFormat

if TYPE_CHECKING:
    from pipeline.audit_range import Edge

_EDGE = "an offset, a time (2026-11-01T08:00:00Z), or TOPIC-PARTITION@OFFSET, several times"


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
    archive: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The table of `pipeline archive`: a dead letter in it is not missing."),
    ] = None,
    archive_format: Annotated[TableFormat, typer.Option(help="Of the archive.")] = TableFormat.PARQUET,
    spark_options: SparkSettings = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Account for every record of the sources, from the topics alone. Exit code 1 if any is missing or doubled."""
    from cli.audit_view import print_audit
    from cli.output import print_json, stderr, stdout
    from pipeline.audit import AuditOptions, audit
    from pipeline.session import spark_session

    settings = load(config, overrides)
    options = AuditOptions(
        first=_edge(begin, "--from"),
        end=_edge(end, "--to"),
        journal=journal,
        archive=None if archive is None else table_place(archive),
        archive_format=archive_format,
        listed=listed,
        output=output,
    )
    console = stderr()
    needed = archive_format.settings | spark_settings(settings, spark_options, log_level)
    started = spark_session("redelivery audit", needed, archive_format.jars)
    with console.status("starting Spark") as status, started as spark:
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
