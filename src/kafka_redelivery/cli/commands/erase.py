"""`redelivery pipeline erase`: erases rows of an archive for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kafka_redelivery.cli.commands.confirmation import Yes, ask, refuse_without_question
from kafka_redelivery.cli.commands.signals import exit_on_signals
from kafka_redelivery.cli.commands.spark import SparkSettings, absolute_table, spark_settings
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
from kafka_redelivery.cli.output import print_json, print_table, print_text, stderr, stdout

if TYPE_CHECKING:
    from kafka_redelivery.pipeline.archive.erasure import Erasure


def erase(
    archive: Annotated[
        str, typer.Option("--archive", metavar="TABLE", help="The table: a folder, or a URI that Spark understands.")
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Rows whose key is this text.")] = None,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="TOPIC", help="Rows of this source topic; * and ? are wildcards."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Rows for which this is true (docs/where.md)."),
    ] = None,
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="How long it may take to find the rows with --where.")
    ] = "10m",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be erased; erase nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    spark: SparkSettings = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Erase rows of an archive for good, such as those of one person, from all files of the table.

    All of --key, --origin and --where that are given must apply to a row. Stop other processes that write to the
    table first.
    """
    exit_on_signals()
    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load(config, overrides)
    needed = spark_settings(settings, spark, log_level)
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.where.where import Where
    from kafka_redelivery.pipeline.archive.archive import archive_session
    from kafka_redelivery.pipeline.archive.erasure import Predicate, count_rows, erase
    from kafka_redelivery.pipeline.spark.jars import DELTA
    from kafka_redelivery.pipeline.spark.session import spark_session

    met = None if where is None else Where.of(where, wall_clock_ms())
    chosen = Predicate(key, origin, met, duration(within, "--within"))
    path = absolute_table(archive)
    with spark_session("redelivery erase", needed, (DELTA,)) as session:
        ours = archive_session(session)
        if dry_run or not yes:
            with stderr().status("reading the table"):
                found = count_rows(ours, path, chosen)
            _print(path, found, done=False, as_json=as_json)
        if dry_run:
            return
        if not yes:  # files that killed runs have left may have such rows, although the table has none
            ask("erase them for good?" if found.rows else "delete all files that the table does not use?")
        with stderr().status("erasing rows"):
            erased = erase(ours, path, chosen)
    _print(path, erased, done=True, as_json=as_json)


def _print(path: str, found: Erasure, *, done: bool, as_json: bool) -> None:
    if as_json:
        counts = {"rows": found.rows, "files": found.files, "origins": dict(found.origins)}
        print_json({"ok": True, "dryRun": not done, "archive": path, **counts})
        return
    if found.origins:
        listed = Table("origin", "rows")
        for origin, number in found.origins.items():
            listed.add_row(origin, f"{number:,}")
        print_table(stdout(), listed)
    verb = "erased" if done else "would be erased"
    print_text(f"{found.rows:,} rows {verb} from {path} (files that had them: {found.files:,})")
    if found.rows and done:
        print_text("Not changed: Kafka's topics, which keep the records until retention, and copies of the table")
