"""Draws a dashboard's grid with data from Prometheus; layout and data, not Grafana's rendering."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from tests.monitoring.prometheus import Series

_COLUMNS: Final = 24
_COLUMN_IN, _LINE_IN = 0.62, 0.36
_HEAD_LINES: Final = 2
_COLOURS: Final = {"green": "#56a64b", "yellow": "#e0a30c", "red": "#d44a3a"}
_CURVES: Final = ("#3274d9", "#ff780a", "#56a64b", "#a352cc", "#e02f44", "#00a3a3", "#8f6b32", "#7a7a7a")
_INK, _PALE, _PAPER, _EDGE = "#24292e", "#6e7781", "#f4f5f5", "#d8d9da"
_MOST_CURVES: Final = 6
_SMALL: Final = 7.5

Panel = Mapping[str, Any]
Answers = Sequence[tuple[str, Sequence[Series]]]
"""Legend template and series of each query of a panel."""


def draw(title: str, definitions: Sequence[Panel], answers: Mapping[int, Answers], start_s: float, note: str) -> Figure:
    """Draw one dashboard.

    Args:
        title: its name.
        definitions: all its panels as in the JSON, headings included.
        answers: the data from Prometheus by panel id.
        start_s: epoch seconds at which the time axis begins.
        note: a caption drawn in the picture.
    """
    lines = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in definitions) + _HEAD_LINES
    figure = Figure(figsize=(_COLUMNS * _COLUMN_IN, lines * _LINE_IN), facecolor=_PAPER)
    figure.text(0.008, 1 - 0.62 / lines, title, fontsize=14, weight="bold", color=_INK, va="top")
    figure.text(0.992, 1 - 0.8 / lines, note, fontsize=8.5, color=_PALE, va="top", ha="right")
    for each in definitions:
        _Panel(figure, each, lines, start_s).draw(answers.get(each["id"], []))
    return figure


class _Panel:
    """A panel in its cell of the grid."""

    def __init__(self, figure: Figure, definition: Panel, lines: int, start_s: float) -> None:
        self._start_s = start_s
        grid_position = definition["gridPos"]
        self._figure, self._definition = figure, definition
        self._left = grid_position["x"] / _COLUMNS + 0.004
        self._width: float = grid_position["w"] / _COLUMNS - 0.008
        self._height = (grid_position["h"] - 0.3) / lines
        self._bottom = 1 - (grid_position["y"] + _HEAD_LINES + grid_position["h"] - 0.15) / lines
        self._line = 1 / lines
        self._unit = definition.get("fieldConfig", {}).get("defaults", {}).get("unit", "none")

    def draw(self, answers: Answers) -> None:
        """Draw the panel."""
        title, top = self._definition["title"], self._bottom + self._height
        if self._definition["type"] == "row":
            self._figure.text(self._left, self._bottom, f"\u25be {title}", fontsize=11, weight="bold", color=_INK)
            return
        frame = FancyBboxPatch(
            (self._left, self._bottom), self._width, self._height,
            boxstyle="square,pad=0", transform=self._figure.transFigure, facecolor="white", edgecolor=_EDGE, zorder=-1,
        )  # fmt: skip
        self._figure.add_artist(frame)
        self._figure.text(
            self._left + 0.006, top - 0.35 * self._line, title, fontsize=9, weight="bold", color=_INK, va="top"
        )
        {"timeseries": self._curves, "stat": self._figure_text, "table": self._table}[self._definition["type"]](answers)

    def _curves(self, answers: Answers) -> None:
        named = [(_name(legend, series), series) for legend, found in answers for series in found]
        named = sorted(named, key=lambda pair: -max(_finite(pair[1]) or [0.0]))[:_MOST_CURVES]
        legend_lines = math.ceil(len(named) / self._per_line()) * 0.62 + 0.2
        axes = self._figure.add_axes(
            (
                self._left + 0.036,
                self._bottom + (0.9 + legend_lines) * self._line,
                self._width - 0.046,
                self._height - (2.2 + legend_lines) * self._line,
            )
        )
        stacked = self._definition["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
        base: dict[float, float] = {}
        for colour, (name, series) in zip(_CURVES, named, strict=False):
            moments = [at - self._start_s for at, _ in series.points]
            values = [value for _, value in series.points]
            if stacked:
                lower = [base.get(at, 0.0) for at, _ in series.points]
                values = [value + below for value, below in zip(values, lower, strict=True)]
                axes.fill_between(moments, lower, values, color=colour, alpha=0.35, linewidth=0)
                base |= {at: value for (at, _), value in zip(series.points, values, strict=True)}
            axes.plot(moments, values, color=colour, linewidth=1.2, label=name)
        self._finish(axes, named)

    def _finish(self, axes: Axes, named: Sequence[tuple[str, Series]]) -> None:
        highest = axes.get_ylim()[1]
        for step in self._steps()[1:]:
            if step["value"] <= highest:
                axes.axhline(step["value"], color=_COLOURS[step["color"]], linestyle="--", linewidth=0.9)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: _in_words(value, self._unit))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} s")
        axes.locator_params(axis="x", nbins=max(3, round(self._width * 14)))
        axes.locator_params(axis="y", nbins=4)
        axes.tick_params(labelsize=_SMALL, colors=_PALE, length=0)
        axes.grid(color="#e5e7e9", linewidth=0.6)
        for side in axes.spines.values():
            side.set_visible(False)
        if named:
            handles, labels = axes.get_legend_handles_labels()
            last = [f"{label}   {_in_words(series.points[-1][1], self._unit)}" for label, (_, series) in zip(labels, named, strict=True)]  # fmt: skip  # noqa: E501
            self._figure.legend(
                handles, last, loc="lower left", bbox_to_anchor=(self._left + 0.002, self._bottom),
                ncols=self._per_line(), fontsize=_SMALL, frameon=False, labelcolor=_INK, handlelength=1.2,
                columnspacing=1.2, labelspacing=0.25,
            )  # fmt: skip

    def _per_line(self) -> int:
        return max(1, round(self._width * 6))

    def _figure_text(self, answers: Answers) -> None:
        values = [series.points[-1][1] for _, found in answers for series in found if series.points]
        nothing = self._definition["fieldConfig"]["defaults"].get("noValue", "no data")
        text = _in_words(values[0], self._unit) if values else nothing
        colour = _COLOURS[self._colour(values[0])] if values else _PALE
        self._figure.text(
            self._left + self._width / 2, self._bottom + self._height * 0.42, text,
            fontsize=20, weight="bold", color=colour, ha="center", va="center",
        )  # fmt: skip

    def _table(self, answers: Answers) -> None:
        rows = [(series.labels, series.points[-1][1]) for _, found in answers for series in found]
        wanted = sorted({name for labels, _ in rows for name in labels} - {"__name__", "job", "group", "version"})
        lines = [[*wanted, "value"]] + [
            [*(labels.get(name, "") for name in wanted), _in_words(value, self._unit)] for labels, value in rows
        ]
        for number, line in enumerate(lines[:10]):
            for column, text in enumerate(line):
                self._figure.text(
                    self._left + 0.006 + self._width * column / len(line),
                    self._bottom + self._height - (1.7 + 0.75 * number) * self._line,
                    _cut(text, round(170 * self._width / len(line))),
                    fontsize=_SMALL, color=_PALE if number == 0 else _INK,
                )  # fmt: skip

    def _steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self._definition["fieldConfig"]["defaults"]["thresholds"]["steps"]
        return steps

    def _colour(self, value: float) -> str:
        return str([step["color"] for step in self._steps() if step["value"] is None or value >= step["value"]][-1])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def _finite(series: Series) -> list[float]:
    return [value for _, value in series.points if math.isfinite(value)]


def _name(legend: str, series: Series) -> str:
    for label, value in series.labels.items():
        legend = legend.replace(f"{{{{{label}}}}}", value)
    return legend


def _in_words(value: float, unit: str) -> str:
    """Format a value similarly to Grafana."""
    if not math.isfinite(value):
        return "-"
    match unit:
        case "s":
            for size, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
                if abs(value) >= size:
                    return f"{value / size:.3g} {name}"
            return f"{value * 1000:.3g} ms" if value else "0 s"
        case "percentunit":
            return f"{value:.3g}" if value == 0 else f"{value * 100:.3g} %"
        case "ops":
            return f"{value:.3g}/s"
        case _:
            return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"
