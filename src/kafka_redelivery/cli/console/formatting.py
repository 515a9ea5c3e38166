"""Numbers, times and texts as the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from kafka_redelivery.topology.printable import printable, printable_line, printable_time

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_KIB: Final = 1024


def number(value: float | None) -> str:
    """Return a number with separators; a dash if it is not known."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash
    return f"{value:,.0f}" if isinstance(value, int) or value >= 10 else f"{value:,.1f}"  # noqa: PLR2004 - digits


def short_number(value: float) -> str:
    """Return a number in at most five characters, such as ``1.2 M``."""
    for limit, divisor, unit in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if value >= limit:
            return f"{value / divisor:.3g}{unit}"
    return f"{value:,.0f}"


def span(ms: float) -> str:
    """Return a length of time in its largest unit, such as ``12 min``."""
    for unit, name in _UNITS:
        if abs(ms) >= unit:
            shown = ms / unit
            return f"{shown:.0f} {name}" if abs(shown) >= 10 or unit == 1000 else f"{shown:.1f} {name}"  # noqa: PLR2004
    return "0 s"


def ago(at_ms: int, now_ms: int) -> str:
    """Return a time as people say it: ``3 min ago``, or ``in 20 s``."""
    distance_ms = now_ms - at_ms
    if abs(distance_ms) < 1000:  # noqa: PLR2004 - a second
        return "now"
    return f"{span(distance_ms)} ago" if distance_ms > 0 else f"in {span(-distance_ms)}"


def time(at_ms: int | None) -> str:
    """Return a time to the second, in UTC."""
    return "" if at_ms is None else printable_time(at_ms).removesuffix(" UTC")


def size(count: int | None) -> str:
    """Return a number of bytes."""
    if count is None:
        return "null"
    if count < _KIB:
        return f"{count} bytes"
    return f"{count / _KIB:.1f} KiB" if count < _KIB * _KIB else f"{count / _KIB / _KIB:.1f} MiB"


def share(part: int, whole: int) -> str:
    """Return a share in per cent, never rounded to 0 or 100 if it is not."""
    if not whole:
        return ""
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "< 1 %"
    if 99 < percent < 100:  # noqa: PLR2004 - per cent
        return "> 99 %"
    return f"{percent:.0f} %"


def line(text: object) -> str:
    """Return a text as one line in which nothing but what can be seen is left."""
    return printable_line(str(text))


def lines(text: object) -> str:
    """Return a text of several lines in which nothing but what can be seen is left."""
    return printable(str(text))


def selected(name: str, value: object) -> str:
    """Return a part of a job's selection as one line, whatever it is: who may write jobs may have forged it."""
    if name in {"sinceMs", "untilMs"} and isinstance(value, int):
        return printable_time(value)
    return line(", ".join(map(str, value)) if isinstance(value, list) else value)


def sparkline(numbers: Sequence[int], label: str) -> Markup:
    """Return bars for numbers as an SVG picture."""
    highest = max(numbers, default=0) or 1
    width = 8 * len(numbers)
    bars = Markup("").join(
        Markup('<rect x="{}" y="{}" width="6" height="{}" rx="1"/>').format(
            8 * at + 1, round(28 - max(2, 26 * each / highest), 1), round(max(2, 26 * each / highest), 1)
        )
        for at, each in enumerate(numbers)
        if each
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} 28" width="{w}" height="28" role="img" aria-label="{label}">'
        '<path class="spark-base" d="M0 27.5H{w}"/>{bars}</svg>'
    ).format(w=width, label=label, bars=bars)
