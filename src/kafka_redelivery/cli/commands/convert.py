"""`redelivery pipeline convert`: converts a table of Parquet, as earlier versions wrote it, to Delta Lake."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_redelivery.cli.commands.signals import exit_on_signals
from kafka_redelivery.cli.commands.spark import SparkSettings, absolute_table, spark_settings
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    LogLevel,
    LogLevelOption,
    Overrides,
    load,
)
from kafka_redelivery.cli.output import print_json, print_text, stderr


def convert(
    table: Annotated[
        str, typer.Option("--table", metavar="TABLE", help="The table: a folder, or a URI that Spark understands.")
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be converted; write nothing.")] = False,
    as_json: AsJson = False,
    spark: SparkSettings = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Convert a table of Parquet to Delta Lake: an archive or a sink table that an earlier version wrote.

    The files with the rows stay as they are. Stop other processes that write to the table first.
    """
    exit_on_signals()
    settings = load(config, overrides)
    needed = spark_settings(settings, spark, log_level)
    from kafka_redelivery.pipeline.archive.conversion import convert
    from kafka_redelivery.pipeline.spark.jars import DELTA
    from kafka_redelivery.pipeline.spark.session import spark_session

    path = absolute_table(table)
    with spark_session("redelivery convert", needed, (DELTA,)) as session, stderr().status("reading the table"):
        found = convert(session, path, dry_run=dry_run)
    if as_json:
        counts = {} if found is None else {"rows": found.rows, "files": found.files}
        print_json({"ok": True, "dryRun": dry_run, "table": path, "converted": found is not None, **counts})
    elif found is None:
        print_text(f"{path} is a Delta table already")
    else:
        verb = "would become" if dry_run else "is now"
        print_text(f"{path} {verb} a Delta table: {found.rows:,} rows in {found.files:,} files, which stay as they are")
