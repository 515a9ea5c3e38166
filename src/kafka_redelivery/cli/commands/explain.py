"""`redelivery explain`: what happens to a record that fails, without a cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load_partly
from kafka_redelivery.cli.output import plain_table, print_json, print_table, print_text, stdout
from kafka_redelivery.topology.durations import format_milliseconds


def explain(
    destinations: Annotated[
        list[str],
        typer.Argument(metavar="DESTINATION...", help="As in orders.eu, queue:orders.eu or topic:news.sport."),
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Explain what happens to a failing record: policy, delays, tiers and dead-letter topic of a destination.

    Needs no cluster, and only those parts of the configuration that concern destinations.
    """
    from kafka_redelivery.topology.explanation import explain as explained

    settings, sources_known = load_partly(config, overrides)
    documents: list[dict[str, Any]] = [
        explained(settings, destination, sources_known=sources_known) for destination in destinations
    ]
    if as_json:
        print_json({"ok": True, "destinations": documents})
        return
    for number, document in enumerate(documents):
        if number:
            print_text()
        _print_explanation(stdout(), document)


def _print_explanation(console: Console, explanation: dict[str, Any]) -> None:
    print_table(console, _facts(explanation))
    if explanation["attempts"]:
        print_table(console, _redeliveries(explanation))
    for warning in explanation["warnings"]:
        console.print(f"note: {explanation['topic']} {warning['problem']}", style="yellow", soft_wrap=True)
        console.print(f"  loss: {warning['loss']}", soft_wrap=True)
        console.print(f"  fix: {warning['fix']}", soft_wrap=True)


def _facts(explanation: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    limit = explanation["max_deliveries"]
    rows = {
        explanation["destination"]: f"Kafka topic {explanation['topic']}",
        "decided by": f"{explanation['dialect']}, {explanation['layer']}",
        "matches": ", ".join(explanation["matched"]) or "no pattern",
        "policy": " ".join(f"{name}={_as_written(value)}" for name, value in explanation["policy"].items()),
        "deliveries": "no limit" if limit < 0 else str(limit),
        "dead letters": _dead_letters(explanation),
        "expired": _expired(explanation["expiry_topic"]),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _as_written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expired(topic: str | None) -> str:
    return "dropped and counted" if topic is None else f"to {topic}"


def _dead_letters(explanation: dict[str, Any]) -> str:
    topic = explanation["dead_letter_topic"]
    if topic is None:
        by = explanation.get("dropped_by")
        return "dropped and counted" + ("" if by is None else f" ({by})")
    life = explanation["dead_letter_expiration_ms"]
    return f"to {topic}, for {'ever' if life <= 0 else format_milliseconds(life)}"


def _redeliveries(explanation: dict[str, Any]) -> Table:
    table = plain_table("redelivery", "after", "between", "waits in")
    for attempt in explanation["attempts"]:
        low, high = attempt["delay_range_ms"]
        table.add_row(
            str(attempt["redelivery"]),
            format_milliseconds(attempt["delay_ms"]),
            "" if low == high else f"{format_milliseconds(max(0, low))} and {format_milliseconds(max(0, high))}",
            attempt["tier"] or ("its partition" if attempt["delay_ms"] > 0 else "nothing: ready immediately"),
        )
    if explanation["max_deliveries"] < 0 or explanation["max_deliveries"] - 1 > len(explanation["attempts"]):
        table.add_row("...", "", "", "")
    return table
