"""The result of an audit as text."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.output import print_table
from kafka_redelivery.pipeline.audit.result import REASONS, AuditResult

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


def print_audit(console: Console, result: AuditResult, output: str | None) -> None:
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
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    topics = list(dict.fromkeys(part.topic for part in result.partitions))
    for topic in topics:
        table.add_column(topic, justify="right", overflow="fold")
    for state, heading in _HEADINGS.items():
        numbers = [sum(part.states[state] for part in result.partitions if part.topic == topic) for topic in topics]
        if any(numbers) or state in {"missing", "doubled"}:
            bad = state in {"missing", "doubled"} and any(numbers)
            table.add_row(heading, *map(str, numbers), style="bold red" if bad else None)
    sums = [sum(sum(part.states.values()) for part in result.partitions if part.topic == topic) for topic in topics]
    table.add_row("records", *map(str, sums), style="bold")
    return table


def _print_findings(console: Console, result: AuditResult, output: str | None) -> None:
    for each in result.removed:
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
