"""`redelivery pipeline archive`: writes dead letters to a table of the data lake."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kafka_redelivery.cli.commands.signals import exit_on_signals, stop_event
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
    begin_log,
    duration,
    load,
)
from kafka_redelivery.cli.output import print_json, print_table, print_text, stderr, stdout

if TYPE_CHECKING:
    from kafka_redelivery.pipeline.archive.archive import ArchiveRun
    from kafka_redelivery.pipeline.archive.delta_table import CompactionResult
    from kafka_redelivery.pipeline.archive.positions import Positions, RemovedLetters
    from kafka_redelivery.pipeline.archive.service import ArchiveService


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
        from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, count_pending, read_positions
        from kafka_redelivery.pipeline.archive.decoding import SourceCodecs
        from kafka_redelivery.pipeline.archive.service import ArchiveService
        from kafka_redelivery.pipeline.spark.jars import DELTA
        from kafka_redelivery.pipeline.spark.session import spark_session

        to = Archive(
            settings=settings,
            codecs=SourceCodecs.of(settings, self.config.absolute().parent),
            output=absolute_table(self.output),
            batch=self.batch,
        )
        with stop_event() as stop, spark_session("redelivery archive", needed, (DELTA,)) as session:
            ours = archive_session(session)
            if self.dry_run:
                found = read_positions(ours, to)
                _print_pending(found, count_pending(ours, to, found), as_json=self.as_json)
                return
            service = ArchiveService(spark=ours, archive=to, compact=self.compact, skip_removed=self.skip_removed)
            if self.follow:
                for run, compacted in service.follow(pause, stop):
                    _print_run(to.output, run, compacted, as_json=self.as_json, more=True)
            else:
                _once(service, stop, as_json=self.as_json)


def _once(service: ArchiveService, stop: threading.Event, *, as_json: bool) -> None:
    console = stderr()
    with console.status("reading the topics") as status:
        run, compacted = service.once(stop, lambda run: status.update(f"{run.letters} dead letters written"))
    _print_run(service.archive.output, run, compacted, as_json=as_json)


def _print_pending(found: Positions, counts: Mapping[tuple[str, int], int], *, as_json: bool) -> None:
    """Print what a run would archive."""
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


def _print_run(
    output: str, run: ArchiveRun, compacted: CompactionResult | None, *, as_json: bool, more: bool = False
) -> None:
    """Print what a run has archived; with ``more`` runs to come, its JSON document is one line."""
    if as_json:
        counts = {"letters": run.letters, "batches": len(run.batches)}
        document = {"ok": True, "dryRun": False, **counts, "output": output, **_lacking(run)}
        document["compacted"] = None if compacted is None else asdict(compacted)
        print_json(document, indent=None if more else 2)
        return
    print_text(f"{run.letters:,} dead letters archived in {output} (batches: {len(run.batches)})")
    if compacted is not None and compacted.folders:
        print_text(
            f"{compacted.before:,} small files compacted to {compacted.after:,} in {compacted.folders:,} folders"
        )
    _print_lacking(run.missing, run.removed)


def _lacking(found: Positions | ArchiveRun) -> dict[str, object]:
    return {"missingTopics": list(found.missing), "removed": [asdict(each) for each in found.removed]}


def _print_lacking(missing: tuple[str, ...], removed: list[RemovedLetters]) -> None:
    from kafka_redelivery.pipeline.archive.positions import missing_text

    for topic in missing:
        stderr().print(missing_text(topic))
    for each in removed:
        partition = f"{each.topic}-{each.partition}"
        stderr().print(f"{partition}: offsets {each.first} to {each.next - 1} were removed before they were archived")
