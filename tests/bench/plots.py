"""Draws the plots of the documentation from results."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench.goals import ratio_goal
from tests.bench.result import QUANTILES, Lateness, Result

_OURS, _NAIVE, _GOAL = "#1f6f8b", "#b0b0b0", "#c0392b"
_PARTS = {"worker": _OURS, "scheduler": "#e0a030", "broker": _NAIVE}


def draw(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the SVGs for the measured workloads; the same results give the same bytes."""
    mpl.rcParams["svg.hashsalt"] = "kafka-redelivery"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    releases = [result for result in results if result.workload == "release"]
    if releases:
        drawn.append(_save(_lateness(releases), folder / "lateness.svg"))
    ratios = [(result, goal) for result in results if (goal := ratio_goal(result)) is not None]
    if ratios:
        drawn.append(_save(_ratios(ratios), folder / "ratios.svg"))
    failing = [result for result in results if result.workload in {"W1", "W2"} and result.cpu_us_per_record]
    if failing:
        drawn.append(_save(_cpu(failing), folder / "cpu.svg"))
    return drawn


def _lateness(releases: Sequence[Result]) -> Figure:
    figure = Figure(figsize=(4.2 * len(releases), 3.2), layout="constrained")
    for axes, result in zip(figure.subplots(1, len(releases), squeeze=False)[0], releases, strict=True):
        if result.lateness is not None:
            _curve(axes, result.lateness, "scheduler", _OURS)
        if result.baseline is not None and result.baseline.lateness is not None:
            _curve(axes, result.baseline.lateness, "naive loop", _NAIVE)
        axes.set(title=f"{result.params['rate']:,} records/s, {result.mode}", xlabel="late, ms", ylabel="% released")
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
    return figure


def _curve(axes: Axes, late: Lateness, name: str, color: str) -> None:
    axes.plot(late.quantiles, QUANTILES, label=name, color=color)


def _ratios(ratios: Sequence[tuple[Result, float]]) -> Figure:
    figure = Figure(figsize=(7, 0.5 + 0.45 * len(ratios)), layout="constrained")
    axes = figure.subplots()
    names = [title(result) for result, _ in ratios]
    axes.barh(names, [result.ratio or 0.0 for result, _ in ratios], color=_OURS, height=0.6)
    for row, (_, goal) in enumerate(ratios):
        axes.plot([goal, goal], [row - 0.4, row + 0.4], color=_GOAL)
    axes.invert_yaxis()
    axes.set(xlabel="share of the bare client's rate in the same run; red: goal", xlim=(0, 1.1))
    axes.grid(axis="x", alpha=0.3)
    return figure


def _cpu(failing: Sequence[Result]) -> Figure:
    """Draw what a record costs each process, and below it what its reads and writes alone cost, where measured."""
    bars: list[tuple[str, dict[str, float]]] = []
    for result in failing:
        share = f", {float(str(result.params['fail_ratio'])):.0%} fail" if "fail_ratio" in result.params else ""
        bars.append((f"{result.workload}, {result.mode}{share}", result.details["cpu_us"]))
        if "floor" in result.details:
            bars.append((f"{result.workload}: reads and writes alone", result.details["floor"]))
    figure = Figure(figsize=(7, 1 + 0.4 * len(bars)), layout="constrained")
    axes = figure.subplots()
    names, left = [name for name, _ in bars], [0.0] * len(bars)
    for part, color in _PARTS.items():
        widths = [parts[part] for _, parts in bars]
        axes.barh(names, widths, left=left, color=color, height=0.6, label=part)
        left = [begin + width for begin, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="microseconds of CPU a record")
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    return figure


def title(result: Result) -> str:
    """Return a short name of a result."""
    parts = [result.workload, result.mode]
    parts += ["one output each"] if result.params.get("output") else []
    parts += [str(result.params[name]) for name in ("ordering", "handler") if name in result.params]
    return ", ".join(parts)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path
