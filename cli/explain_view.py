"""How an explanation looks on a terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from cli.output import print_table
from topology.durations import format_duration


def print_explanation(console: Console, told: dict[str, Any]) -> None:
    """The facts of one destination, then its redeliveries, then what to mind."""
    print_table(console, _facts(told))
    if told["attempts"]:
        print_table(console, _redeliveries(told))
    for warning in told["warnings"]:
        console.print(f"note: {told['topic']} {warning['problem']}", style="yellow", soft_wrap=True)
        console.print(f"  loss: {warning['loss']}", soft_wrap=True)
        console.print(f"  mend: {warning['mend']}", soft_wrap=True)


def _facts(told: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    most = told["max_deliveries"]
    rows = {
        told["destination"]: f"Kafka topic {told['topic']}",
        "decided by": f"{told['dialect']}, {told['layer']}",
        "matches": ", ".join(told["matched"]) or "no pattern",
        "policy": " ".join(f"{name}={_as_written(value)}" for name, value in told["policy"].items()),
        "deliveries": "no limit" if most < 0 else str(most),
        "dead letters": _dead_letters(told),
        "expired": "dropped and counted" if told["expiry_topic"] is None else f"to {told['expiry_topic']}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _as_written(value: object) -> str:
    """In the words of the configuration file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dead_letters(told: dict[str, Any]) -> str:
    topic = told["dead_letter_topic"]
    if topic is None:
        by = told.get("dropped_by")
        return "dropped and counted" + ("" if by is None else f" ({by})")
    life = told["dead_letter_expiration_ms"]
    return f"to {topic}, for {'ever' if life <= 0 else _spoken(life)}"


def _redeliveries(told: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("redelivery", "after", "between", "waits in"):
        table.add_column(heading)
    for attempt in told["attempts"]:
        least, most = attempt["delay_range_ms"]
        table.add_row(
            str(attempt["redelivery"]),
            _spoken(attempt["delay_ms"]),
            "" if least == most else f"{_spoken(max(0, least))} and {_spoken(max(0, most))}",
            attempt["tier"] or ("its own place" if attempt["delay_ms"] > 0 else "nothing: ready at once"),
        )
    if told["max_deliveries"] < 0 or told["max_deliveries"] - 1 > len(told["attempts"]):
        table.add_row("...", "", "", "")
    return table


def _spoken(milliseconds: int) -> str:
    try:
        return format_duration(timedelta(milliseconds=milliseconds))
    except OverflowError:
        return f"{milliseconds}ms"
