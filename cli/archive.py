"""`redelivery pipeline archive`: dead letters into a table of the lake."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.archive_view import print_pending, print_run
from cli.first_process import heed_signals
from cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, LogLevel, LogLevelOption, Overrides, load
from cli.output import stderr
from cli.spark import SparkSettings, spark_settings, table_place
from pipeline.table_format import TableFormat
from topology.durations import parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

    from pipeline.archive_service import ArchiveService


def archive(
    output: Annotated[str, typer.Option("--output", "-o", metavar="TABLE", help="A folder, or a URI of Spark's.")],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    table: Annotated[TableFormat, typer.Option("--format", help="Of the table.")] = TableFormat.PARQUET,
    batch: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Most dead letters written at once.")] = 200_000,
    compact: Annotated[bool, typer.Option("--compact", help="Put small files together in the end.")] = False,
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="How long files stay that were put together, for who reads them.")
    ] = "1h",
    follow: Annotated[bool, typer.Option("--follow", help="Go on until SIGTERM or Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="With --follow: how often to look.")] = "1m",
    skip_removed: Annotated[
        bool, typer.Option("--skip-removed", help="Go on without what was removed from Kafka before it was archived.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be archived; write nothing.")] = False,
    as_json: AsJson = False,
    spark: SparkSettings = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Write the dead letters of the configuration into a table of the lake, each exactly once.

    A run takes what is there and ends; the next one goes on behind it.
    """
    heed_signals()
    pause, kept = _duration(every, "--every"), _duration(grace, "--grace")
    settings = load(config, overrides)
    needed = table.settings | spark_settings(settings, spark, log_level)
    from pipeline.archive import Archive, archive_session, count_pending, where
    from pipeline.archive_service import ArchiveService
    from pipeline.decoding import SourceCodecs
    from pipeline.session import spark_session

    to = Archive(
        settings=settings,
        codecs=SourceCodecs.of(settings, config.absolute().parent),
        output=table_place(output),
        format=table,
        batch=batch,
    )
    with _stopped_by_signals() as ended, spark_session("redelivery archive", needed, table.jars) as session:
        ours = archive_session(session)
        if dry_run:
            found = where(ours, to)
            print_pending(found, count_pending(ours, to, found), as_json=as_json)
            return
        service = ArchiveService(spark=ours, archive=to, compact=compact, grace=kept, skip_removed=skip_removed)
        if follow:
            for run, compacted in service.follow(pause, ended):
                print_run(to.output, run, compacted, as_json=as_json, more=True)
        else:
            _once(service, ended, as_json=as_json)


def _once(service: ArchiveService, ended: threading.Event, *, as_json: bool) -> None:
    console = stderr()
    with console.status("reading the topics") as status:
        run, compacted = service.once(ended, lambda run: status.update(f"{run.letters} dead letters written"))
    print_run(service.archive.output, run, compacted, as_json=as_json)


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Set by SIGTERM or Ctrl-C; a second signal ends the process at once."""
    ended = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    yield ended


def _duration(text: str, option: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
