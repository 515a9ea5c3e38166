"""`redelivery pipeline archive`, `erase` and `convert`: what is done with tables of dead letters in the data lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.commands.spark import SparkSettings, absolute_table, spark_settings
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    ConfigFile,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    Yes,
    ask,
    begin_log,
    duration,
    load,
    refuse_without_question,
)
from kafka_redelivery.cli.output import print_json, print_table, print_text, stderr, stdout
from kafka_redelivery.consumers.process.signals import exit_on_signals

if TYPE_CHECKING:
    from kafka_redelivery.pipeline.archive.archive import ArchiveRun, Positions, RemovedLetters
    from kafka_redelivery.pipeline.archive.delta_table import Erasure


@dataclass(frozen=True, kw_only=True)
class Archiving:
    """Write the dead letters of the configuration to a table of the data lake, each exactly once.

    A run archives the dead letters that are there and ends. The next run continues after them.
    """

    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="TABLE", help="A folder, or a URI that Spark understands."),
    ]
    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    batch: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Maximum dead letters per batch.")] = 200_000
    compact: Annotated[bool, typer.Option("--compact", help="Compact small files after the run.")] = False
    follow: Annotated[bool, typer.Option("--follow", help="Continue until SIGTERM or Ctrl-C.")] = False
    every: Annotated[str, typer.Option(metavar="DURATION", help="With --follow: the time between two runs.")] = "1m"
    skip_removed: Annotated[
        bool,
        typer.Option("--skip-removed", help="Continue although dead letters were removed before they were archived."),
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be archived; write nothing.")] = False
    as_json: AsJson = False
    spark: SparkSettings = None
    log_level: LogLevelOption = LogLevel.WARNING
    log_format: LogFormatOption = LogFormat.TEXT

    def __call__(self) -> None:
        """Archive what is there, once or again and again."""
        exit_on_signals()
        begin_log(self.log_level, self.log_format)
        pause = duration(self.every, "--every")
        settings = load(self.config, self.overrides)
        needed = spark_settings(settings, self.spark, self.log_level)
        from kafka_redelivery.pipeline.archive.archive import (
            Archive,
            archive_session,
            count_pending,
            follow,
            read_positions,
            run_archive,
        )
        from kafka_redelivery.pipeline.archive.dead_letters import SourceCodecs
        from kafka_redelivery.pipeline.spark.jars import DELTA
        from kafka_redelivery.pipeline.spark.session import spark_session

        to = Archive(
            settings=settings,
            codecs=SourceCodecs.of(settings, self.config.absolute().parent),
            output=absolute_table(self.output),
            batch=self.batch,
            compact=self.compact,
            skip_removed=self.skip_removed,
        )
        with stop_event() as stop, spark_session("redelivery archive", needed, (DELTA,)) as session:
            ours = archive_session(session)
            if self.dry_run:
                found = read_positions(ours, to)
                _print_pending(found, count_pending(ours, to, found), as_json=self.as_json)
            elif self.follow:
                for run in follow(ours, to, pause, stop):
                    _print_run(to.output, run, as_json=self.as_json, more=True)
            else:
                with stderr().status("reading the topics") as status:
                    run = run_archive(
                        ours,
                        to,
                        on_progress=lambda run: status.update(f"{run.letters} dead letters written"),
                        stop=stop,
                    )
                _print_run(to.output, run, as_json=self.as_json)


def _print_pending(found: Positions, counts: Mapping[tuple[str, int], int], *, as_json: bool) -> None:
    if as_json:
        partitions = [
            {"topic": topic, "partition": number, "letters": counts[topic, number]} for topic, number in sorted(counts)
        ]
        print_json(
            {"ok": True, "dryRun": True, "letters": sum(counts.values()), "partitions": partitions, **_lacking(found)}
        )
        return
    table = Table("topic", "partition", "dead letters")
    for (topic, partition), count in sorted(counts.items()):
        table.add_row(topic, str(partition), f"{count:,}")
    if counts:
        print_table(stdout(), table)
    print_text(f"{sum(counts.values()):,} dead letters would be archived")
    _print_lacking(found.missing, found.removed)


def _print_run(output: str, run: ArchiveRun, *, as_json: bool, more: bool = False) -> None:
    """Print what a run has archived; with ``more`` runs to come, its JSON document is one line."""
    if as_json:
        counts = {"letters": run.letters, "batches": len(run.batches)}
        document = {"ok": True, "dryRun": False, **counts, "states": run.states, "output": output, **_lacking(run)}
        document["statesProblem"] = run.states_problem or None
        document["compacted"] = None if run.compacted is None else asdict(run.compacted)
        print_json(document, indent=None if more else 2)
        return
    print_text(f"{run.letters:,} dead letters archived in {output} (batches: {len(run.batches)})")
    if run.states:
        print_text(f"{run.states:,} rows have another state")
    if run.states_problem:
        stderr().print(f"what became of dead letters is not known: {run.states_problem}", style="yellow")
    if (done := run.compacted) is not None and done.folders:
        print_text(f"{done.before:,} small files compacted to {done.after:,} in {done.folders:,} folders")
    _print_lacking(run.missing, run.removed)


def _lacking(found: Positions | ArchiveRun) -> dict[str, object]:
    return {"missingTopics": list(found.missing), "removed": [asdict(each) for each in found.removed]}


def _print_lacking(missing: tuple[str, ...], removed: list[RemovedLetters]) -> None:
    from kafka_redelivery.pipeline.archive.archive import missing_text

    for topic in missing:
        stderr().print(missing_text(topic))
    for each in removed:
        partition = f"{each.topic}-{each.partition}"
        stderr().print(f"{partition}: offsets {each.first} to {each.next - 1} were removed before they were archived")


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
    from kafka_redelivery.pipeline.archive.delta_table import Predicate, erase
    from kafka_redelivery.pipeline.spark.jars import DELTA
    from kafka_redelivery.pipeline.spark.session import spark_session

    met = None if where is None else Where.of(where, wall_clock_ms())
    chosen = Predicate(key, origin, met, duration(within, "--within"))
    path = absolute_table(archive)
    with spark_session("redelivery erase", needed, (DELTA,)) as session:
        ours = archive_session(session)
        if dry_run or not yes:
            with stderr().status("reading the table"):
                found = erase(ours, path, chosen, dry_run=True)
            _print_erasure(path, found, done=False, as_json=as_json)
        if dry_run:
            return
        if not yes:  # files that killed runs have left may have such rows, although the table has none
            ask("erase them for good?" if found.rows else "delete all files that the table does not use?")
        with stderr().status("erasing rows"):
            erased = erase(ours, path, chosen)
    _print_erasure(path, erased, done=True, as_json=as_json)


def _print_erasure(path: str, found: Erasure, *, done: bool, as_json: bool) -> None:
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
