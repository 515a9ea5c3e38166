"""The result of the demo, as a table and as a JSON object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.flights.check import Findings
from examples.flights.engine import Engine
from examples.flights.outage import Cost
from examples.flights.truth import Ending, Expected


@dataclass(frozen=True, slots=True)
class Report:
    """Result of the demo."""

    expected: Sequence[Expected]
    findings: Findings
    counts: Mapping[str, int]
    """Records by outcome, from the journal."""

    lateness_ms: Sequence[int]
    restarts: Mapping[str, int]
    seconds: Mapping[str, float]
    """By phase."""

    engine: Engine = Engine.WORKERS
    outage: Cost | None = None
    """What the outage of the book has cost, if there was one."""

    blocking: bool = False
    """Whether the flights of a plane keep their order."""

    @property
    def conserved(self) -> bool:
        """Whether every record is accounted for."""
        return not self.findings.faults.count

    def document(self) -> dict[str, Any]:
        """The JSON object. Lateness is in ms, from due to handed out; ``seconds`` begin when the broker is ready."""
        findings, counts = self.findings, self.counts
        late = sorted(self.lateness_ms)
        return {
            "engine": self.engine.value,
            "records_in": findings.records_in,
            "outcomes": {
                "acked": counts.get("acked", 0),
                "recovered": counts.get("recovered", 0),
                "dead_lettered": {ending.value: findings.dead_letters[ending] for ending in Ending if ending.dead}
                | dict(findings.dead_letters),
                "discarded": counts.get("discarded", 0),
                "pending": findings.pending,
            },
            "seat_miles": findings.seat_miles,
            "lateness_ms": {
                "p50": _quantile(late, 0.50),
                "p99": _quantile(late, 0.99),
                "max": late[-1] if late else None,
                "early": sum(ms < 0 for ms in late) + findings.early,
                "count": len(late),
            },
            "conservation": "ok" if self.conserved else findings.faults.lines(),
            "restarts": dict(self.restarts),
            "seconds": round(sum(self.seconds.values()), 1),
            "phases": {name: round(seconds, 1) for name, seconds in self.seconds.items()},
        } | self._more()

    def _more(self) -> dict[str, Any]:
        """What the object has only with ``--redrive`` and ``--outage``."""
        again = {what.replace(" ", "_"): found for what, _, _, found in self.sent_again()}
        more: dict[str, Any] = {"redrive": again} if again else {}
        if self.blocking:
            more["overtaken"] = self.findings.overtaken
        return more if self.outage is None else more | {"outage": asdict(self.outage)}

    def sent_again(self) -> list[tuple[str, str, int, int]]:
        """What became of the dead letters that were sent again, as rows: what, why, expected number, found number."""
        again = Counter(each.again for each in self.expected if each.again is not None)
        findings = self.findings
        if not again:
            return []
        return [
            ("sent again", "dead letters of unknown planes", again.total(), findings.sent_again),
            # A record whose first outcome is a dead letter can only have an output after it was sent again.
            ("recovered", "its plane is known now", again[Ending.RECOVERED], findings.outputs["dead_lettered"]),
            ("dead again", "its plane is still unknown", again[Ending.REDELIVERIES_EXCEEDED], findings.dead_again),
        ]


def show(report: Report, console: Console) -> None:
    """Print the table."""
    document = report.document()
    table = Table(title="What became of the flights", title_justify="left")
    table.add_column("outcome")
    table.add_column("why")
    table.add_column("expected", justify="right")
    table.add_column("found", justify="right")
    table.add_column("")
    rows = _rows(report)
    _add_rows(table, rows)
    table.add_section()
    expected, found = len(report.expected), sum(row[3] for row in rows)
    _add_rows(table, [("all", "records in flights", expected, found)])
    if report.blocking:
        _add_rows(table, [("overtaken", "by a later flight of the plane", 0, report.findings.overtaken)])
    if again := report.sent_again():
        table.add_section()
        _add_rows(table, again)
        table.add_section()
    if (cost := report.outage) is not None:
        table.add_section()
        _add_rows(table, [("dead-lettered", "the book was away", 0, cost.dead)])
        _add_rows(table, [("attempts spent", "the book was away", 0, cost.attempts)])
        few, calls = cost.calls <= cost.most_calls, f"in the {cost.away_s:g} s in which it was away"
        table.add_row("calls of the book", calls, f"≤ {cost.most_calls}", str(cost.calls), _mark(few))
        table.add_row("full speed", "after its return", "", f"{cost.full_s:g} s", "")
        table.add_section()
    miles = sum(each.seat_miles or 0 for each in report.expected)
    _add_rows(table, [("seat-miles", "sum of the outputs", miles, report.findings.seat_miles)])
    console.print(table)
    late = document["lateness_ms"]
    if late["count"]:
        waited = "" if report.outage is None else "; some of them waited for the book"
        console.print(
            f"{late['count']:,} redeliveries, handed out after they were due: p50 {late['p50']} ms, "
            f"p99 {late['p99']} ms, max {late['max']} ms; early: {late['early']}{report.engine.note}{waited}",
            soft_wrap=True,
        )
    killed = ", ".join(f"{role} {times} times" for role, times in report.restarts.items() if times)
    if killed:
        console.print(f"killed and restarted: {killed}")
    if report.conserved:
        console.print("conservation: every record is accounted for", style="green")
    else:
        console.print(f"conservation: {report.findings.faults.count} faults", style="bold red")
        for fault in report.findings.faults.lines():
            console.print(f"  {fault}", markup=False, highlight=False, soft_wrap=True)
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items())
    console.print(f"{document['seconds']} s ({phases})", soft_wrap=True)


def show_cost(cost: Cost, console: Console) -> None:
    """Print what an outage has cost without a declared dependency."""
    table = Table(title=f"What {cost.away_s:g} s without the book of flights have cost", title_justify="left")
    table.add_column("")
    table.add_column("found", justify="right")
    table.add_row("dead letters because it was away", f"{cost.dead:,}")
    table.add_row("attempts spent because it was away", f"{cost.attempts:,}")
    table.add_row("calls of the book while it was away", f"{cost.calls:,}")
    console.print(table)


def _add_rows(table: Table, rows: Iterable[tuple[str, str, int, int]]) -> None:
    """Add rows of outcome, reason, expected number and found number, each with a mark."""
    for outcome, why, expected, found in rows:
        table.add_row(outcome, why, f"{expected:,}", f"{found:,}", _mark(expected == found))


def _rows(report: Report) -> list[tuple[str, str, int, int]]:
    """Outcome, reason, expected number, found number."""
    findings, counts = report.findings, report.counts
    expected_by_ending: Counter[str] = Counter(
        "cancelled" if each.ending is Ending.ACKED and each.seat_miles is None else each.ending
        for each in report.expected
    )
    acked = findings.outputs["acked"]
    return [
        ("acknowledged", "seat-miles sent", expected_by_ending[Ending.ACKED], acked),
        ("acknowledged", "cancelled, nothing to send", expected_by_ending["cancelled"], counts.get("acked", 0) - acked),
        ("recovered", "its plane arrived late", expected_by_ending[Ending.RECOVERED], counts.get("recovered", 0)),
        *(
            ("dead-lettered", f"{ending}: {why}", expected_by_ending[ending], findings.dead_letters[ending])
            for ending, why in _WHY_DEAD.items()
        ),
        ("discarded", "", 0, counts.get("discarded", 0)),
        ("pending", "", 0, findings.pending),
    ]


_WHY_DEAD = {
    Ending.REDELIVERIES_EXCEEDED: "its plane did not arrive",
    Ending.REJECTED: "no tail number",
    Ending.UNDECODABLE: "broken bytes",
}


def _quantile(ascending: Sequence[int], share: float) -> int | None:
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))] if ascending else None


def _mark(right: bool) -> Text:  # noqa: FBT001 - the only argument
    return Text("✓", "green") if right else Text("✗", "bold red")
