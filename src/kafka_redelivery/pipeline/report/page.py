"""Renders the report as one self-contained HTML page: no network access, no scripts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kafka_redelivery.pipeline.report.plots import plots
from kafka_redelivery.pipeline.report.report import SHOWN, Report
from kafka_redelivery.pipeline.report.words import survival_sentences

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
