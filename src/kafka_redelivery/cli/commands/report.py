"""`redelivery pipeline report`: failure analytics as tables and a web page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kafka_redelivery.cli.commands.spark import SparkSettings, absolute_table, folder_uri, spark_settings
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    LogLevel,
    LogLevelOption,
    Overrides,
    duration,
    load,
)
from kafka_redelivery.cli.output import print_json, print_text, stderr
from kafka_redelivery.consumers.process.signals import exit_on_signals

PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class MakeReport:
    """Report what fails and why, how often it recovers and what is waiting, as one HTML file and as tables.

    Reads the archive, the dead-letter, retry and ready topics and the journal. Changes nothing in Kafka.
    """

    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help=f"For {PAGE} and the tables; also a URI that Spark understands."
        ),
    ]
    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    archive: Annotated[
        str | None,
        typer.Option(
            "--archive",
            metavar="TABLE",
            help="The table of `pipeline archive`; the topics add newer ones. Default: only the topics.",
        ),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="CONDITION", help="Count only dead letters for which this is true (docs/where.md)."
        ),
    ] = None
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="How long it may take to compute --where for all dead letters.")
    ] = "10m"
    tables: Annotated[str, typer.Option(metavar="<parquet|csv|json>", help="The format of the tables.")] = "parquet"
    journal: Annotated[bool, typer.Option("--journal/--no-journal", help="Use the journal, if it is on.")] = True
    as_json: AsJson = False
    spark: SparkSettings = None
    log_level: LogLevelOption = LogLevel.WARNING

    def __call__(self) -> None:
        """Read the archive and the topics, and write the report."""
        exit_on_signals()
        settings = load(self.config, self.overrides)
        needed = spark_settings(settings, self.spark, self.log_level)
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.pipeline.archive.archive import archive_session
        from kafka_redelivery.pipeline.lake.files import LakeFiles
        from kafka_redelivery.pipeline.report.page import page
        from kafka_redelivery.pipeline.report.report import Request, Tables, make_report
        from kafka_redelivery.pipeline.spark.jars import DELTA
        from kafka_redelivery.pipeline.spark.session import describing_jobs, spark_session

        if self.tables not in set(Tables):
            raise typer.BadParameter(f"{self.tables!r} is not one of {', '.join(Tables)}", param_hint="--tables")
        if Path(self.output).is_file():
            raise typer.BadParameter(f"{self.output} is a file; name a folder", param_hint="--output")
        request = Request(
            settings=settings,
            archive=None if self.archive is None else absolute_table(self.archive),
            where=self.where,
            within=duration(self.within, "--within"),
            journal=self.journal,
            output=folder_uri(self.output),
            form=Tables(self.tables),
        )
        name = "redelivery report"
        started = spark_session(name, needed, () if self.archive is None else (DELTA,))
        with stderr().status("starting Spark") as status, started as session:
            on_progress = describing_jobs(session, name, status.update)
            made = make_report(archive_session(session), request, wall_clock_ms(), on_progress)
            LakeFiles(session, folder_uri(self.output)).write(PAGE, page(made))
        if self.as_json:
            print_json({"ok": True, **made.document()})
        else:
            sources = "1 source" if made.origins == 1 else f"{made.origins:,} sources"
            print_text(f"{made.letters:,} dead letters of {sources}; the report is {self.output.rstrip('/')}/{PAGE}")
