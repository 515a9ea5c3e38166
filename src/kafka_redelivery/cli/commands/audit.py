"""`redelivery pipeline audit`: accounts for every record and finds missing and duplicate ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.commands.spark import SparkSettings, absolute_table, spark_settings
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, LogLevel, LogLevelOption, Overrides, load
from kafka_redelivery.cli.output import plain_table, print_json, print_table, stderr, stdout
from kafka_redelivery.consumers.process.signals import exit_on_signals
from kafka_redelivery.topology import exit_codes

if TYPE_CHECKING:
    from kafka_redelivery.pipeline.audit.result import AuditResult

_EDGE = "an offset, a time (2026-11-01T08:00:00Z), or TOPIC-PARTITION@OFFSET (repeatable)"

_HEADINGS = {
    "acked": "acked",
    "recovered": "recovered",
    "pending": "pending",
    "dead_lettered": "dead-lettered",
    "discarded": "discarded",
    "expired": "expired",
    "untraced": "acked, or lost without trace",
    "missing": "missing",
    "doubled": "doubled",
}
_WHERE = {
    "unread": "not read yet",
    "in_hand": "in or before a handler",
    "in_place": "waiting in its source partition",
    "tier": "waiting in a tier",
    "ready": "ready",
}


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
        from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
        from kafka_redelivery.pipeline.audit.snapshot import parse_bound
        from kafka_redelivery.pipeline.spark.jars import DELTA
        from kafka_redelivery.pipeline.spark.session import describing_jobs, spark_session

        settings = load(self.config, self.overrides)
        options = AuditOptions(
            first=parse_bound(self.begin or (), "from"),
            end=parse_bound(self.end or (), "to"),
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
            _print(stdout(), result, None if self.output is None else str(self.output))
        if not result.conserved:
            raise typer.Exit(exit_codes.FAILED)


def _print(console: Console, result: AuditResult, output: str | None) -> None:
    """Print the counts, then missing and doubled records, then the limits of the evidence."""
    print_table(console, _counts(result))
    waiting = {
        state: sum(part.waiting.get(state, 0) for part in result.partitions)
        for state in _WHERE
        if any(part.waiting.get(state) for part in result.partitions)
    }
    if waiting:
        console.print("pending: " + ", ".join(f"{number} {_WHERE[state]}" for state, number in waiting.items()))
    _print_findings(console, result, output)
    for topic, number in result.unattributed.items():
        console.print(f"no origin: {number} records of {topic}", soft_wrap=True)
    for note in result.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    if result.conserved:
        console.print("nothing is missing, nothing is doubled", style="green")
        return
    missing, doubled = result.count("missing"), result.count("doubled")
    removed = sum(each.end - each.first for each in result.lost_unread)
    unread = f", up to {removed} removed before they were read" if removed else ""
    again = f", {len(result.created_again)} topics created again" if result.created_again else ""
    console.print(f"{missing} missing, {doubled} doubled{unread}{again}", style="bold red", soft_wrap=True)


def _counts(result: AuditResult) -> Table:
    topics = list(dict.fromkeys(part.topic for part in result.partitions))
    table = plain_table("", *topics, right=topics)
    for state, heading in _HEADINGS.items():
        numbers = [sum(part.states[state] for part in result.partitions if part.topic == topic) for topic in topics]
        if any(numbers) or state in {"missing", "doubled"}:
            bad = state in {"missing", "doubled"} and any(numbers)
            table.add_row(heading, *map(str, numbers), style="bold red" if bad else None)
    sums = [sum(sum(part.states.values()) for part in result.partitions if part.topic == topic) for topic in topics]
    table.add_row("records", *map(str, sums), style="bold")
    return table


def _print_findings(console: Console, result: AuditResult, output: str | None) -> None:
    from kafka_redelivery.pipeline.audit.result import REASONS

    for each in result.snapshot.removed:
        console.print(
            f"removed unread: {each.partition}, offsets {each.first} to {each.end - 1}, "
            f"which group {each.reader} had not read",
            soft_wrap=True,
        )
    for topic in result.created_again:
        console.print(
            f"created again: topic {topic} was deleted and created again; what became of the records of the older one "
            "is not known any more, and its journal and copies do not count for the new one",
            soft_wrap=True,
        )
    for finding in result.findings:
        console.print(f"{finding.state}: {finding.message_id}: {REASONS[finding.why]}", soft_wrap=True)
        if finding.journal:
            outcomes = ", ".join(f"{outcome} {number}" for outcome, number in finding.journal.items())
            console.print(f"  journal: {outcomes}", soft_wrap=True)
        for copy in finding.copies:
            console.print(f"  copy: {copy}", soft_wrap=True)
    rest = result.count("missing") + result.count("doubled") - len(result.findings)
    if rest > 0:
        where = f"all are in {output}" if output is not None else "write all of them to a file with --output FILE"
        console.print(f"and {rest} more; {where}", soft_wrap=True)
