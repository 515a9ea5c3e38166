"""Formats results as tables for the terminal."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.goals import Goal
from tests.bench.result import Lateness, Result


def results_table(results: Sequence[Result]) -> Table:
    """Make a table with a row for each result."""
    table = Table(title="measured")
    for name in (
        "workload",
        "mode",
        "records/s",
        "baseline",
        "ratio",
        "late p50 / p99 / max ms, early",
        "lost, doubled",
    ):
        table.add_column(name)
    table.add_column("RSS MB worker, scheduler")
    for result in results:
        base = result.baseline
        table.add_row(
            result.workload,
            result.mode,
            _number(result.records_per_s),
            "" if base is None else f"{base.name}: {_number(base.records_per_s) or lateness_text(base.lateness)}",
            "" if result.ratio is None else f"{result.ratio:.2f}",
            lateness_text(result.lateness),
            f"{result.lost}, {result.doubled}",
            f"{_number(result.rss_worker_mb)}, {_number(result.rss_scheduler_mb)}",
        )
    return table


def goals_table(goals: Sequence[Goal]) -> Table:
    """Make a table with a row for each goal."""
    table = Table(title="goals")
    for name in ("what", "goal", "measured"):
        table.add_column(name, overflow="fold")
    table.add_column("")
    for goal in goals:
        color = "green" if goal.met else "red"
        table.add_row(goal.what, goal.goal, goal.measured, f"[{color}]{goal.verdict}[/]")
    return table


def lateness_text(late: Lateness | None) -> str:
    """Format lateness in one line."""
    return "" if late is None else f"{late.p50:.1f} / {late.p99:.1f} / {late.max:.1f}, {late.early} early"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
