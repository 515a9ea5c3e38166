"""`redelivery pipeline audit`: accounts for every record and finds missing and duplicate ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.commands.signals import exit_on_signals
from kafka_redelivery.cli.commands.spark import SparkSettings, absolute_table, spark_settings
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, LogLevel, LogLevelOption, Overrides, load
from kafka_redelivery.topology import exit_codes

if TYPE_CHECKING:
    from kafka_redelivery.pipeline.audit.range import RangeBound

_EDGE = "an offset, a time (2026-11-01T08:00:00Z), or TOPIC-PARTITION@OFFSET (repeatable)"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Account for every record of the sources by reading the topics. Exit code 1 if any is missing or doubled."""

    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    as_json: AsJson = False
    begin: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="OFFSET-OR-TIME",
            help=f"Start of the range: {_EDGE}. Default: the first record kept.",
        ),
    ] = None
    end: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="OFFSET-OR-TIME", help="End of the range, exclusive. Default: the group's position."
        ),
    ] = None
    journal: Annotated[
        bool, typer.Option("--journal/--no-journal", help="Use the journal as evidence, if it is on.")
    ] = True
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Print this many missing and doubled records at most.")
    ] = 20
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write all of them to this file, one JSON object per line.",
        ),
    ] = None
    archive: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The table of `pipeline archive`; a dead letter in it is not missing."),
    ] = None
    spark_options: SparkSettings = None
    log_level: LogLevelOption = LogLevel.WARNING

    def __call__(self) -> None:
        """Read the topics, and print what is missing or doubled."""
        exit_on_signals()
        from kafka_redelivery.cli.output import print_json, stderr, stdout
        from kafka_redelivery.cli.views.audit import print_audit
        from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
        from kafka_redelivery.pipeline.spark.jars import DELTA
        from kafka_redelivery.pipeline.spark.session import describing_jobs, spark_session

        settings = load(self.config, self.overrides)
        options = AuditOptions(
            first=_edge(self.begin, "--from"),
            end=_edge(self.end, "--to"),
            journal=self.journal,
            archive=None if self.archive is None else absolute_table(self.archive),
            listed=self.limit,
            output=self.output,
        )
        console = stderr()
        needed = spark_settings(settings, self.spark_options, self.log_level)
        name = "redelivery audit"
        started = spark_session(name, needed, () if self.archive is None else (DELTA,))
        with console.status("starting Spark") as status, started as spark:
            result = audit(spark, settings, options, on_progress=describing_jobs(spark, name, status.update))
        if self.as_json:
            print_json(result.document(None if self.output is None else str(self.output)))
        else:
            print_audit(stdout(), result, None if self.output is None else str(self.output))
        if not result.conserved:
            raise typer.Exit(exit_codes.FAILED)


def _edge(texts: list[str] | None, option: str) -> RangeBound | None:
    from kafka_redelivery.pipeline.audit.range import RangeError, parse_bound

    try:
        return parse_bound(texts or ())
    except RangeError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
