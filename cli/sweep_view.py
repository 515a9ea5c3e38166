"""How a pass of the sweeper looks: on a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from cli.output import print_table
from consumers.sweep_head import Rest
from consumers.sweep_pass import END, TAKEN_OVER, UNFINISHED, PartitionSwept, TopicSwept

_REASONS = {
    END: "nothing is left",
    TAKEN_OVER: "a scheduler has started and sweeps it",
    UNFINISHED: "stopped here",
    Rest.NEVER: "offset {offset} never expires",
    Rest.OTHERS: "offset {offset} is another group's, which removes it itself",
    Rest.NOT_YET: "offset {offset} expires {expires}",
    Rest.REFUSED: "offset {offset} stays: {problem}",
}

_LATEST_MS = 253_402_300_799_000
"""The end of the year 9999; a header may hold anything."""


def print_swept(console: Console, swept: Sequence[TopicSwept], *, dry_run: bool) -> None:
    """A row for each partition that has or had dead letters, then the sum."""
    table = Table(box=None, pad_edge=False)
    table.add_column("dead-letter topic", overflow="fold")
    table.add_column("partition", justify="right")
    table.add_column("expired" if dry_run else "removed", justify="right")
    table.add_column("of them to move" if dry_run else "moved", justify="right")
    table.add_column("then", overflow="fold")
    for topic in swept:
        if topic.problem:
            table.add_row(topic.name, "", "", "", topic.problem, style="red")
        for each in topic.partitions:
            if each.removed or each.because != END:
                style = "red" if each.because == Rest.REFUSED else None
                table.add_row(
                    topic.name, str(each.number), str(each.removed), str(each.moved), _reason(each), style=style
                )
    if table.row_count:
        print_table(console, table)
    removed, moved = _sums(swept)
    if dry_run:
        console.print(f"{removed} would be removed, {moved} of them moved before; nothing was done: this was a dry run")
    else:
        console.print(f"{removed} expired dead letters removed, {moved} of them moved before")


def swept_document(swept: Sequence[TopicSwept]) -> dict[str, Any]:
    """As a program reads it."""
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


def _sums(swept: Sequence[TopicSwept]) -> tuple[int, int]:
    partitions = [each for topic in swept for each in topic.partitions]
    return sum(each.removed for each in partitions), sum(each.moved for each in partitions)


def _reason(each: PartitionSwept) -> str:
    expires = datetime.fromtimestamp(min(each.expires_ms, _LATEST_MS) / 1000, UTC)
    return _REASONS[each.because].format(
        offset=each.offset, expires=f"{expires:%Y-%m-%d %H:%M:%S} UTC", problem=each.problem
    )
