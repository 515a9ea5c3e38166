"""Renders the report as one self-contained HTML page: no network access, no scripts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kafka_redelivery.pipeline.report.plots import plots
from kafka_redelivery.pipeline.report.report import SHOWN, Report

Row = dict[str, Any]


def survival_sentences(report: Report) -> list[str]:
    """Return how the failed records ended, at which attempt most recovered, and which last attempts were in vain."""
    return list(_sentences(report)) if report.survival and report.failed else []


def _sentences(report: Report) -> Iterator[str]:
    rows, failed = report.survival, report.failed
    recovered = "recovered" if report.journal else "recovered or were discarded"
    ends = [f"{report.recovered:,} ({_share(report.recovered, failed)}) {recovered}"]
    for name, words in (("dead", "became dead letters"), ("discarded", "were discarded")):
        number = sum(row[name] for row in rows)
        if number:
            ends.append(f"{number:,} ({_share(number, failed)}) {words}")
    yield f"Of {failed:,} failed {'record' if failed == 1 else 'records'}, {_joined(ends)}."
    best = max(rows, key=lambda row: row["recovered"])
    if best["recovered"]:
        number, reached = best["recovered"], best["reached"]
        share = _share(number, reached)
        yield f"Most recovered at attempt {best['attempt']}: {number:,} of the {reached:,} that had it ({share})."
    vain = _in_vain(rows)
    if vain:
        first, last = vain[0]["attempt"], vain[-1]["attempt"]
        attempts = f"Attempt {first}" if first == last else f"Attempts {first} to {last}"
        yield f"{attempts} recovered 0 of {vain[0]['reached']:,}."


def _in_vain(rows: list[Row]) -> list[Row]:
    """Return the last attempts at which no record recovered, without the first attempt, at which none can."""
    last_success = max((number for number, row in enumerate(rows) if row["recovered"]), default=-1)
    return [row for row in rows[last_success + 1 :] if row["attempt"] > 1]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


_TEMPLATE: Final = "report.html.j2"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


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
    """Format a duration in its largest unit."""
    if value is None:
        return "–"  # noqa: RUF001
    if value < _MINUTE_S:
        return f"{value:.1f} s"
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return ""
