"""Writes the tables and plots of ``docs/simulation.md``; the text around them is written by hand."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.simulation.calibration import Case
from tests.simulation.rebalances import Rebalance

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
_BEGIN, _END = "<!-- {}: written by python -m tests.simulation -->", "<!-- end of {} -->"
_COLOURS = ("#1f6f8b", "#c0392b", "#7f8c8d", "#e0a030")


@dataclass(frozen=True, slots=True)
class Row:
    """A run: its question, its series, where it stands in it, and what was measured."""

    question: str
    series: str
    at: float
    measured: dict[str, Any]


def write(rows: Sequence[Row], calibrated: Sequence[tuple[Case, dict[str, float]]], moved: Sequence[Rebalance]) -> None:
    """Replace the tables of the page and draw its plots; ``--results`` keeps all figures."""
    images = PAGE.parent / "images"
    mpl.rcParams["svg.hashsalt"] = "kafka-redelivery"
    _save(_load_plot(_of(rows, "load")), images / "simulation-load.svg")
    _save(_narrow_plot(_of(rows, "narrow")), images / "simulation-narrow.svg")
    tables = {
        "calibration": _calibration(calibrated),
        "rebalances": _rebalances(moved),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in tables.items():
        text = _replaced(text, name, lines)
    PAGE.write_text(text, encoding="utf-8")


def _of(rows: Sequence[Row], question: str) -> list[Row]:
    return [row for row in rows if row.question == question]


def _replaced(text: str, name: str, lines: Iterator[str]) -> str:
    begin, end = _BEGIN.format(name), _END.format(name)
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{PAGE.name} needs the lines {begin!r} and {end!r}")
    return "\n".join([before + begin, "", *lines, "", end + after])


def _calibration(calibrated: Sequence[tuple[Case, dict[str, float]]]) -> Iterator[str]:
    yield "| partitions of source, tier, ready topic | measured p50 / p99 ms | simulated |"
    yield "|---|---|---|"
    for case, found in calibrated:
        sizes = f"{case.source}, {case.tier}, {case.ready}"
        yield f"| {sizes} | {case.p50:,g} / {case.p99:,g} | {found['p50']:,.0f} / {found['p99']:,.0f} |"


def _rebalances(moved: Sequence[Rebalance]) -> Iterator[str]:
    yield "| | strategy | of a worker | of ready topics | move when a worker joins | when one leaves |"
    yield "|---" * 6 + "|"
    for each in moved:
        shares = f"{each.fewest} to {each.most} | {each.fewest_ready} to {each.most_ready}"
        moves = f"{each.joined:,} | {each.left:,} of {each.partitions:,}"
        yield f"| {each.shape} | {each.strategy} | {shares} | {moves} |"


def _load_plot(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _series(left, rows, lambda found: float(found["lateness"]["p50"]), solid=True)
    _series(left, rows, lambda found: float(found["lateness"]["p99"]), solid=False)
    left.set(xlabel="load (arriving work / what all slots can do)", ylabel="late, ms (dashed: p99)", yscale="log")
    _series(right, rows, lambda found: float(found["redeliveries_per_s"]), solid=True)
    right.set(xlabel="load", ylabel="redeliveries/s")
    right.legend(fontsize="small")
    return figure


def _narrow_plot(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _series(left, rows, lambda found: float(found["lateness"]["p50"]), solid=True)
    left.set(xlabel="workers of one source with 320 partitions", ylabel="late, ms (p50)", yscale="log")
    _series(right, rows, lambda found: 100 * float(found["slots_used"]), solid=True)
    right.set(xlabel="workers", ylabel="slots in use, %", ylim=(0, 100))
    left.legend(fontsize="small")
    return figure


def _series(axes: Axes, rows: Sequence[Row], value: Callable[[dict[str, Any]], float], *, solid: bool) -> None:
    for colour, name in zip(_COLOURS, dict.fromkeys(row.series for row in rows), strict=False):
        points = [(row.at, value(row.measured)) for row in rows if row.series == name]
        style, label = ("-", name) if solid else ("--", None)
        axes.plot(*zip(*points, strict=True), style, color=colour, label=label, marker="o", markersize=3)
    axes.grid(alpha=0.3)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})
