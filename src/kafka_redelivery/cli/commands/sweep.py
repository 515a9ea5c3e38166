"""`redelivery sweep`: removes expired dead letters once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, Yes, ask, can_ask, load
from kafka_redelivery.cli.output import plain_table, print_json, print_table, stderr, stdout
from kafka_redelivery.consumers.dead_letters.sweep import (
    END,
    TAKEN_OVER,
    UNFINISHED,
    PartitionResult,
    TopicResult,
    sweep_once,
)
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_time


def sweep(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove expired dead letters in one pass.

    Schedulers do this continuously. Use this command for topics that no scheduler sweeps: because none is running, or
    because the configuration no longer has an expiration for them. On a terminal it shows them and asks; a scheduled
    job is not asked. Exit code 1 if Kafka refused something.
    """
    from kafka_redelivery.consumers.telemetry.logs import log_to_stderr

    log_to_stderr(logging.WARNING, "%(message)s")
    settings = load(config, overrides)
    asks = not (yes or dry_run) and can_ask(as_json=as_json)
    swept = _sweep(settings, dry_run=dry_run or asks)
    if asks:
        print_swept(stdout(), swept, done=False)
        if removed_letters(swept) and not _interrupted(swept):
            ask("remove them for good?")
            swept = _sweep(settings, dry_run=False)
            print_swept(stdout(), swept, done=True)
    elif as_json:
        print_json({"ok": _whole(swept), "dryRun": dry_run, **swept_document(swept)})
    else:
        print_swept(stdout(), swept, done=not dry_run)
        if dry_run:
            stdout().print("dry run: nothing was changed")
    if not _whole(swept):
        raise typer.Exit(exit_codes.FAILED)


def _sweep(settings: Settings, *, dry_run: bool) -> list[TopicResult]:
    """Pass over the topics until the end or a signal, and show the progress."""
    from kafka_redelivery.cli.progress import progress

    with stop_event() as stop, progress(stderr(), "reading dead letters") as report_progress:
        return sweep_once(settings, stop, report_progress, dry_run=dry_run)


def _interrupted(swept: list[TopicResult]) -> bool:
    return any(each.because == UNFINISHED for topic in swept for each in topic.partitions)


def _whole(swept: list[TopicResult]) -> bool:
    return all(topic.complete for topic in swept)


_REASONS = {
    END: "no dead letters are left",
    TAKEN_OVER: "a scheduler has started and continues",
    UNFINISHED: "interrupted",
    PauseReason.NEVER: "offset {offset} never expires",
    PauseReason.OTHERS: "offset {offset} belongs to another group, which removes it",
    PauseReason.NOT_YET: "offset {offset} expires {expires}",
    PauseReason.REFUSED: "offset {offset} stays: {problem}",
}


def print_swept(console: Console, swept: Sequence[TopicResult], *, done: bool) -> None:
    """Print a row for each partition that has or had dead letters, then the totals of what was removed, or would be."""
    numbers = ("partition", *(("removed", "moved") if done else ("expired", "to move")))
    table = plain_table("dead-letter topic", *numbers, "then", right=numbers)
    for topic in swept:
        if topic.problem:
            table.add_row(topic.name, "", "", "", topic.problem, style="red")
        for each in topic.partitions:
            if each.removed or each.because != END:
                style = "red" if each.because == PauseReason.REFUSED else None
                table.add_row(
                    topic.name, str(each.number), str(each.removed), str(each.moved), _reason(each), style=style
                )
    if table.row_count:
        print_table(console, table)
    removed, moved = _sums(swept)
    verb = "removed" if done else "would be removed"
    console.print(f"{removed} expired dead letters {verb}, {moved} of them moved first")


def removed_letters(swept: Sequence[TopicResult]) -> int:
    """Return the number of dead letters that were removed, or would be."""
    return _sums(swept)[0]


def swept_document(swept: Sequence[TopicResult]) -> dict[str, Any]:
    """Return the result as a JSON document."""
    removed, moved = _sums(swept)
    return {
        "removed": removed,
        "moved": moved,
        "topics": [
            {
                "topic": topic.name,
                "problem": topic.problem or None,
                "partitions": [
                    {
                        "partition": each.number,
                        "removed": each.removed,
                        "moved": each.moved,
                        "because": each.because,
                        "offset": each.offset,
                        "expiresMs": each.expires_ms or None,
                        "problem": each.problem or None,
                    }
                    for each in topic.partitions
                ],
            }
            for topic in swept
        ],
    }


def _sums(swept: Sequence[TopicResult]) -> tuple[int, int]:
    partitions = [each for topic in swept for each in topic.partitions]
    return sum(each.removed for each in partitions), sum(each.moved for each in partitions)


def _reason(each: PartitionResult) -> str:
    expires = printable_time(each.expires_ms)
    return _REASONS[each.because].format(offset=each.offset, expires=expires, problem=each.problem)
