"""The result of a sweep as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.output import print_table
from kafka_redelivery.consumers.dead_letters.sweep import END, TAKEN_OVER, UNFINISHED, PartitionResult, TopicResult
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason
from kafka_redelivery.topology.printable import printable_time

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
    table = Table(box=None, pad_edge=False)
    table.add_column("dead-letter topic", overflow="fold")
    table.add_column("partition", justify="right")
    table.add_column("removed" if done else "expired", justify="right")
    table.add_column("moved" if done else "to move", justify="right")
    table.add_column("then", overflow="fold")
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
