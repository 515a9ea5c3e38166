"""The status of a group as text and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.output import print_table
from kafka_redelivery.cli.views.pauses import pause_lines, pausing_document, process_lines
from kafka_redelivery.consumers.operations.status import GroupStatus, Member, TopicBacklog
from kafka_redelivery.topology.printable import printable_time


def print_status(console: Console, found: GroupStatus) -> None:
    """Print one screen."""
    console.print(f"group {found.group} at {printable_time(found.at_ms)}")
    table = _table("members", "partitions", "control offset applied")
    for member in found.members:
        table.add_row(f"{member.group}: {member.name}", str(member.partitions), _applied(found, member))
    _print(console, table)
    table = _table("unfinished", "at most", "due", "failed with")
    for each in found.backlogs:
        table.add_row(f"{each.role} {each.topic}", f"{each.records:,}", _due(each), _causes(each))
    _print(console, table)
    table = _table("dead letters", "at most")
    for topic, number in found.dead_letters.items():
        table.add_row(topic, f"{number:,}")
    _print(console, table)
    for line in (*pause_lines(found.pausing), *process_lines(found.pausing)):
        console.print(line)
    for fault in found.faults:
        console.print(f"fault: {fault}", style="red", soft_wrap=True)
    if not found.faults:
        console.print("no faults")


def status_document(found: GroupStatus) -> dict[str, Any]:
    """Return the same as a JSON document. ``members`` of the pauses is in ``pausing``."""
    return {
        "group": found.group,
        "atMs": found.at_ms,
        "members": [{"group": each.group, "name": each.name, "partitions": each.partitions} for each in found.members],
        "unfinished": [
            {
                "topic": each.topic,
                "role": each.role,
                "records": each.records,
                **(
                    {"read": each.read, "due": each.due, "firstDueMs": each.first_due_ms, "causes": each.causes}
                    if each.role == "tier"
                    else {}
                ),
            }
            for each in found.backlogs
        ],
        "deadLetters": [{"topic": topic, "kept": number} for topic, number in found.dead_letters.items()],
        "pausing": pausing_document(found.pausing),
        "faults": list(found.faults),
    }


def _applied(found: GroupStatus, member: Member) -> str:
    noted = [each.offset for name, each in found.pausing.processes.items() if name.instance == member.name]
    if noted:
        return f"{min(noted)} of {found.pausing.end}"
    return "unknown" if found.pausing.end else "never paused"


def _due(each: TopicBacklog) -> str:
    if not each.read:
        return ""
    parts = [f"{number:,} {name}" for name, number in each.due.items()]
    if each.first_due_ms is not None:
        parts.append(f"the first at {printable_time(each.first_due_ms)}")
    more = "" if each.read >= each.records else f" (of the first {each.read:,})"
    return ", ".join(parts) + more


def _causes(each: TopicBacklog) -> str:
    return ", ".join(f"{number:,} {exception}" for exception, number in each.causes.items())


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="right" if number == 1 else "left")
    return table


def _print(console: Console, table: Table) -> None:
    if table.row_count:
        console.print()
        print_table(console, table)
    else:
        console.print(f"\nno {table.columns[0].header}")
