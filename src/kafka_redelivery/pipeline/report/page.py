"""Renders the report as one self-contained HTML page: no network access, no scripts, plots as inline SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kafka_redelivery.pipeline.report.report import SHOWN, Report, Rows

_TEMPLATE: Final = "report.html.j2"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_COLOURS: Final = ("#2f6690", "#d1495b", "#edae49", "#66a182", "#8d6a9f", "#5b8e99", "#a98467", "#6c757d")
_INK, _FAINT = "#24323d", "#dfe5ea"
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text, so that a search in the page finds it
    "svg.hashsalt": "report",  # the same figures give the same page
    "text.parse_math": False,  # do not interpret dollar signs in names
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _FAINT,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_WIDE, _NARROW, _HIGH = 9.6, 4.7, 2.9
_BARS: Final = 12
_TICKS: Final = 8
_LENGTHS: Final = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
_STEPS: Final = {
    "second": (1, 2, 5, 10, 15, 30),
    "minute": (1, 2, 5, 10, 15, 30),
    "hour": (1, 2, 3, 6, 12, 24),
    "day": (1, 2, 7, 14, 28),
}
"""The distances between ticks, in units. A longer period is divided evenly."""

_LABELS: Final = {"second": "%H:%M:%S", "minute": "%H:%M", "hour": "%d %b %H:%M", "day": "%Y-%m-%d"}
_CURVE: Final = 10
"""A curve through fewer different times says less than the table."""

_LABEL: Final = 34
_MILLION, _THOUSAND = 1_000_000, 1000


def page(report: Report) -> str:
    """Return the HTML page. All text is escaped, except the plots: matplotlib escapes the text in them."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "time": _time, "seconds": _seconds, "percent": _percent}
    drawn = {name: Markup(svg) for name, svg in plots(report).items()}  # noqa: S704 - made by matplotlib, which escapes
    return environment.get_template(_TEMPLATE).render(
        report=report, plots=drawn, shown=SHOWN, sentences=survival_sentences(report)
    )


def _number(value: float) -> str:
    return f"{value:,}"


def _time(value: datetime | None) -> str:
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"  # noqa: RUF001 - an en dash means no value


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"  # noqa: RUF001


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"  # noqa: RUF001
    if value < _MINUTE_S:
        return f"{value:.1f} s"
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return ""


def survival_sentences(report: Report) -> list[str]:
    """Return how the failed records ended, at which attempt most recovered, and which last attempts were in vain."""
    return list(_sentences(report)) if report.survival and report.failed else []


def _sentences(report: Report) -> Iterator[str]:
    rows, failed = report.survival, report.failed
    recovered = "recovered" if report.journal else "recovered or were discarded"
    ends = [f"{report.recovered:,} ({_percent(report.recovered, failed)}) {recovered}"]
    for name, words in (("dead", "became dead letters"), ("discarded", "were discarded")):
        number = sum(row[name] for row in rows)
        if number:
            ends.append(f"{number:,} ({_percent(number, failed)}) {words}")
    yield f"Of {failed:,} failed {'record' if failed == 1 else 'records'}, {_joined(ends)}."
    best = max(rows, key=lambda row: row["recovered"])
    if best["recovered"]:
        number, reached = best["recovered"], best["reached"]
        share = _percent(number, reached)
        yield f"Most recovered at attempt {best['attempt']}: {number:,} of the {reached:,} that had it ({share})."
    vain = _in_vain(rows)
    if vain:
        first, last = vain[0]["attempt"], vain[-1]["attempt"]
        attempts = f"Attempt {first}" if first == last else f"Attempts {first} to {last}"
        yield f"{attempts} recovered 0 of {vain[0]['reached']:,}."


def _in_vain(rows: Rows) -> Rows:
    """Return the last attempts at which no record recovered, without the first attempt, at which none can."""
    last_success = max((number for number, row in enumerate(rows) if row["recovered"]), default=-1)
    return [row for row in rows[last_success + 1 :] if row["attempt"] > 1]


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def plots(report: Report) -> dict[str, str]:
    """Return the plots that have data, by name: ``trend``, ``origins``, ``survival``, ``recovery``."""
    made: dict[str, str] = {}
    if report.trend:
        made["trend"] = _svg(lambda axes: _trend(axes, report), _WIDE, "Dead letters over time")
    if len(report.by_origin) > 1:
        made["origins"] = _svg(lambda axes: _origins(axes, report.by_origin), _NARROW, "Dead letters by source")
    if any(row["recovered"] for row in report.survival):
        made["survival"] = _svg(lambda axes: _survival(axes, report), _NARROW, "Share recovered by attempt")
    if len(set(report.curve)) >= _CURVE:
        made["recovery"] = _svg(lambda axes: _recovery(axes, report.curve), _NARROW, "Time to recovery")
    return made


def _svg(draw: Callable[[Axes], None], width: float, title: str) -> str:
    with rc_context(_STYLE):
        figure = Figure(figsize=(width, _HIGH), layout="constrained")
        draw(figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Title": title}, transparent=True)
    drawn = text.getvalue()
    # Inline SVG has no XML prologue or doctype, and no fixed size.
    inner = drawn[drawn.index("<svg") :]
    return re.sub(r"<svg [^>]*>", lambda found: _fluid(found[0]), inner, count=1)


def _fluid(tag: str) -> str:
    without = re.sub(r' (?:width|height)="[^"]*"', "", tag)
    return without.replace("<svg ", '<svg role="img" ', 1)


def _trend(axes: Axes, report: Report) -> None:
    times = sorted({row["since"] for row in report.trend})
    place = {time: number for number, time in enumerate(times)}
    reasons = [row["reason"] for row in report.by_reason]
    days = _LENGTHS[report.unit] / timedelta(days=1)
    below = [0] * len(times)
    for reason, colour in zip(reasons, cycle(_COLOURS), strict=False):
        heights = [0] * len(times)
        for row in report.trend:
            if row["reason"] == reason:
                heights[place[row["since"]]] += row["letters"]
        axes.bar(times, heights, days * 0.9, below, align="edge", color=colour, label=reason)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    ticks = trend_ticks(times[0], times[-1], report.unit)
    labels = [f"{tick:{_LABELS[report.unit]}}" for tick in ticks]
    axes.set_xticks(ticks, labels)  # type: ignore[arg-type] # the axis has dates
    axes.set_xlabel(_period(times[0], times[-1], report.unit))
    axes.set_ylabel(f"dead letters per {report.unit}")
    axes.grid(visible=False, axis="x")
    _counts(axes.yaxis)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def trend_ticks(first: datetime, last: datetime, unit: str) -> list[datetime]:
    """Return the times to label: whole units from the first to the last, at most eight."""
    length = _LENGTHS[unit]
    units = (last - first) // length
    step = next((step for step in _STEPS[unit] if units < step * _TICKS), -(-(units + 1) // _TICKS))
    return [first + number * length for number in range(0, units + 1, step)]


def _period(first: datetime, last: datetime, unit: str) -> str:
    """Return the label of the axis: the date, where the ticks have none."""
    if unit not in {"second", "minute"}:
        return "UTC"
    days = f"{first:%Y-%m-%d}" if first.date() == last.date() else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"{days}, UTC"


def _origins(axes: Axes, rows: Rows) -> None:
    shown = list(reversed(rows[:_BARS]))
    names = [_short(row["origin"]) for row in shown]
    bars = axes.barh(range(len(shown)), [row["letters"] for row in shown], color=_COLOURS[0], height=0.7)
    axes.set_yticks(range(len(shown)), names)
    axes.bar_label(bars, [_count(row["letters"]) for row in shown], padding=3)
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(-0.6, max(len(shown), 3) - 0.4)
    axes.set_xlabel("dead letters")
    _counts(axes.xaxis)


def _survival(axes: Axes, report: Report) -> None:
    """Plot the share of failed records that had recovered, or were dead letters or discarded, by attempt."""
    rows = report.survival
    recovered = dead = 0
    shares: list[tuple[int, float, float]] = []
    for row in rows:
        recovered, dead = recovered + row["recovered"], dead + row["dead"] + row["discarded"]
        shares.append((row["attempt"], 100 * recovered / report.failed, 100 * dead / report.failed))
    attempts, up, down = zip(*shares, strict=True)
    axes.plot(attempts, up, marker="o", drawstyle="steps-post", color=_COLOURS[3], label="recovered")
    axes.plot(attempts, down, marker="o", drawstyle="steps-post", color=_COLOURS[1], label="dead")
    axes.set_xlabel("attempt (1 = first delivery)")
    axes.set_ylabel("% of failed records, by this attempt")
    axes.set_ylim(0, 102)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)


def _recovery(axes: Axes, curve: list[float]) -> None:
    axes.plot([0, *curve], range(len(curve) + 1), color=_COLOURS[3])
    axes.set_xlabel("seconds from the first failure")
    axes.set_ylabel("% of recovered records")
    axes.set_ylim(0, 102)
    axes.set_xlim(left=0)


def _short(name: str) -> str:
    return name if len(name) <= _LABEL else f"{name[: _LABEL - 3]}..."


def _count(number: float) -> str:
    if number >= _MILLION:
        return f"{number / _MILLION:.3g}M"
    return f"{number / _THOUSAND:.3g}k" if number >= 10 * _THOUSAND else f"{number:,.0f}"


def _counts(axis: Any) -> None:  # noqa: ANN401 - either axis
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda number, _: _count(number)))
