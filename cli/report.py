"""`redelivery pipeline report`: failure analytics, as tables and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.first_process import heed_signals
from cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, LogLevel, LogLevelOption, Overrides, load
from cli.output import print_json, stderr
from cli.spark import SparkSettings, spark_settings, table_place
from pipeline.table_format import TableFormat

PAGE = "report.html"


def report(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", file_okay=False, help=f"For {PAGE} and the tables.")
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    archive: Annotated[
        str | None,
        typer.Option("--archive", metavar="TABLE", help="Dead letters that were archived; else those in the topics."),
    ] = None,
    archive_format: Annotated[TableFormat, typer.Option(help="Of the archive.")] = TableFormat.PARQUET,
    tables: Annotated[str, typer.Option(metavar="<parquet|csv|json>", help="The format of the tables.")] = "parquet",
    journal: Annotated[
        bool, typer.Option("--journal/--no-journal", help="Whether to use the journal, where it is on.")
    ] = True,
    as_json: AsJson = False,
    spark: SparkSettings = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Say what fails, why, how often it recovers and what waits, as one page to send, and as tables.

    Reads the archive, the dead-letter, retry and ready topics and the journal; changes nothing in Kafka.
    """
    heed_signals()
    settings = load(config, overrides)
    needed = archive_format.settings | spark_settings(settings, spark, log_level)
    from consumers.clock import wall_clock_ms
    from pipeline.archive import archive_session
    from pipeline.report import Request, Tables, make_report
    from pipeline.report_page import page
    from pipeline.session import spark_session

    if tables not in set(Tables):
        raise typer.BadParameter(f"{tables!r} is none of {', '.join(Tables)}", param_hint="--tables")
    request = Request(
        settings=settings,
        archive=None if archive is None else table_place(archive),
        archive_format=archive_format,
        journal=journal,
        output=output.absolute(),
        form=Tables(tables),
    )
    output.mkdir(parents=True, exist_ok=True)
    started = spark_session("redelivery report", needed, archive_format.jars)
    with stderr().status("starting Spark") as status, started as session:
        made = make_report(archive_session(session), request, wall_clock_ms(), status.update)
    (output / PAGE).write_text(page(made), encoding="utf-8")
    if as_json:
        print_json(made.document())
    else:
        sources = "1 source" if made.origins == 1 else f"{made.origins:,} sources"
        typer.echo(f"{made.letters:,} dead letters of {sources}; the report is {output / PAGE}")
