"""The report as one page of HTML that needs nothing else: no network, no scripts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.report import SHOWN, Report
from pipeline.report_plots import plots

_TEMPLATE: Final = "report.html.j2"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def page(report: Report) -> str:
    """The page. Whatever comes from records is escaped; the plots alone are not, which hold names we have checked."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "time": _time, "seconds": _seconds, "percent": _percent}
    drawn = {name: Markup(svg) for name, svg in plots(report).items()}  # noqa: S704 - made by matplotlib, which escapes
    return environment.get_template(_TEMPLATE).render(report=report, plots=drawn, shown=SHOWN)


def _number(value: float) -> str:
    return f"{value:,}"


def _time(value: datetime | None) -> str:
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"  # noqa: RUF001 - a dash for nothing


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"  # noqa: RUF001


def _seconds(value: float | None) -> str:
    """A length of time as a person says it."""
    if value is None:
        return "–"  # noqa: RUF001
    if value < _MINUTE_S:
        return f"{value:.1f} s"
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return ""
