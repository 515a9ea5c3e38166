"""Writes the measured figures into ``docs/reference/measurements.md``; the text around them is written by hand."""

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

from confluent_kafka import libversion

from kafka_redelivery.transport.broker.jars import KAFKA_VERSION
from tests.bench.goals import goals
from tests.bench.plots import draw, title
from tests.bench.result import Result
from tests.bench.view import lateness_text

PAGE = Path(__file__).parents[2] / "docs/reference/measurements.md"
BEGIN, END = "<!-- figures: written by ./dev bench --write -->", "<!-- end of figures -->"


def write(results: Sequence[Result], command: str, today: date) -> None:
    """Replace the figures in the page and draw its plots.

    Raises:
        ValueError: the page lacks the lines that enclose the figures.
    """
    page = PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"{PAGE.name} needs the lines {BEGIN!r} and {END!r}")
    plots = draw(results, PAGE.parents[1] / "images")
    lines = [BEGIN, "", *_lines(results, command, today, plots), "", END]
    PAGE.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def _lines(results: Sequence[Result], command: str, today: date, plots: Sequence[Path]) -> Iterator[str]:
    yield f"`{command}`, {today.isoformat()}, on {machine()}."
    yield ""
    yield "| what | goal | measured | |"
    yield "|---|---|---|---|"
    for goal in goals(results):
        yield f"| {goal.what} | {goal.goal} | {goal.measured} | {goal.verdict} |"
    yield ""
    for plot in plots:
        yield f"![{plot.stem}](../images/{plot.name})"
        yield ""
    yield "RSS: peak in MB of worker (w) and scheduler (s). CPU: microseconds a record, of clients and broker."
    yield "Ratio: W1, W2: hops/s by the records/s of the client; release, W3, tiers: p99 by p99; others: records/s."
    yield ""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|---" * len(_COLUMNS) + "|"
    for result in results:
        yield _row(result)


def _row(result: Result) -> str:
    base, late = result.baseline, result.lateness
    limit = ""
    if base is not None:
        figure = lateness_text(base.lateness) if base.records_per_s is None else f"{base.records_per_s:,.0f}"
        limit = f"{base.name}: {figure}"
    params = " ".join(f"{name}={result.params[name]}" for name in _SHOWN_PARAMETERS if name in result.params)
    rss = [(name, size) for name, size in (("w", result.rss_worker_mb), ("s", result.rss_scheduler_mb)) if size]
    cells = [
        f"{title(result)} {params}".strip(),
        "" if result.records_per_s is None else f"{result.records_per_s:,.0f}",
        limit,
        "" if result.ratio is None else f"{result.ratio:.2f}",
        "" if late is None else f"{late.p50:.1f} / {late.p90:.1f} / {late.p99:.1f} / {late.max:.1f}, {late.early}",
        f"{result.lost}, {result.doubled}",
        " ".join(f"{name} {size:.0f}" for name, size in rss),
        "" if result.cpu_us_per_record is None else f"{result.cpu_us_per_record:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


_COLUMNS = (
    "run",
    "records/s",
    "baseline",
    "ratio",
    "late p50 / p90 / p99 / max ms, early",
    "lost, doubled",
    "RSS",
    "CPU",
)
_SHOWN_PARAMETERS = ("n", "fail_ratio", "pending", "rate", "who", "stable_name")


def machine() -> str:
    """Describe the machine and the versions that the figures depend on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{os.cpu_count()} cores, {pages / 2**30:.0f} GiB, Python {platform.python_version()}, "
        f"confluent-kafka {version('confluent-kafka')} (librdkafka {libversion()[0]}), embedded Kafka {KAFKA_VERSION}; "
        "broker and clients share the machine"
    )
