"""`redelivery status`: one screen about a group."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import plain_table, print_json, print_table, stderr, stdout
from kafka_redelivery.cli.views.pauses import pause_lines, pausing_document, process_lines
from kafka_redelivery.consumers.operations import status as operations
from kafka_redelivery.consumers.operations.status import GroupStatus, Member, TopicBacklog
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.printable import printable_line, printable_time


def status(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show the group: members, what waits and when it is due, dead letters, pauses, outages, who obeys, faults.

    Reads at most 10,000 waiting records. Exit code 1 if there are faults. `redelivery topology check` looks at the
    configuration of the topics.
    """
    from kafka_redelivery.cli.progress import progress

    settings = load(config, overrides)
    with progress(stderr(), "reading waiting records") as report:
        found = operations.status(settings, report)
    if as_json:
        print_json({"ok": not found.faults, **status_document(found)})
    else:
        print_status(stdout(), found)
    if found.faults:
        raise typer.Exit(exit_codes.FAILED)


def print_status(console: Console, found: GroupStatus) -> None:
    """Print one screen."""
    console.print(f"group {found.group} at {printable_time(found.at_ms)}")
    table = plain_table("members", "partitions", "control offset applied", right=("partitions",))
    for member in found.members:
        table.add_row(f"{member.group}: {member.name}", str(member.partitions), _applied(found, member))
    _print(console, table)
    table = plain_table("unfinished", "records", "due", "failed with", right=("records",))
    for each in found.backlogs:
        records = f"{each.records:,}" if each.exact else f"at most {each.records:,}"
        table.add_row(f"{each.role} {each.topic}", records, _due(each), _causes(each))
    _print(console, table)
    table = plain_table("dead letters", "at most", right=("at most",))
    for topic, number in found.dead_letters.items():
        table.add_row(topic, f"{number:,}")
    _print(console, table)
    for line in (*pause_lines(found.pausing), *process_lines(found.pausing)):
        console.print(line)
    for request in found.requests:
        console.print(printable_line(str(request)), style="yellow", soft_wrap=True)
    for outage in found.outages:
        console.print(f"outage: {printable_line(str(outage))}", style="yellow", soft_wrap=True)
    if found.dependencies and not found.outages:
        console.print("no dependency is away")
    for fault in found.faults:
        console.print(f"fault: {printable_line(fault)}", style="red", soft_wrap=True)
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
                "exact": each.exact,
                "behindOpenTransactions": each.hidden,
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
        "outages": [{**each.state.document(), "waiting": each.records} for each in found.dependencies],
        "requests": [each.document() for each in found.requests],
        "faults": list(found.faults),
    }


def _applied(found: GroupStatus, member: Member) -> str:
    seen = found.pausing
    noted = [each.offset for name, each in seen.processes.items() if name.instance == member.name]
    if not noted and seen.applied == len(seen.processes) == seen.members:
        # Kafka does not know a process without an instance by the name under which it notes what it obeys.
        noted = [each.offset for each in seen.processes.values()]
    if noted:
        return f"{min(noted)} of {seen.end}"
    return "unknown" if seen.end else "never paused"


def _due(each: TopicBacklog) -> str:
    hidden = f"{each.hidden:,} more in or behind open transactions" if each.hidden else ""
    return "; ".join(filter(None, [_due_times(each), hidden]))


def _due_times(each: TopicBacklog) -> str:
    if not each.read:
        return ""
    parts = [f"{number:,} {name}" for name, number in each.due.items()]
    if each.first_due_ms is not None:
        parts.append(f"the first at {printable_time(each.first_due_ms)}")
    more = "" if each.read >= each.records else f" (of the first {each.read:,})"
    return ", ".join(parts) + more


def _causes(each: TopicBacklog) -> str:
    return ", ".join(f"{number:,} {exception}" for exception, number in each.causes.items())


def _print(console: Console, table: Table) -> None:
    if table.row_count:
        console.print()
        print_table(console, table)
    else:
        console.print(f"\nno {table.columns[0].header}")
