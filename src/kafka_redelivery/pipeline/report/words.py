"""Says in sentences what the table of attempts shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_redelivery.pipeline.report.report import Report

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
