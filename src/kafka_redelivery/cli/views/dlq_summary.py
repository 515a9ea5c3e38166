"""What the index says of dead letters, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafka_redelivery.cli.output import print_json, print_table
from kafka_redelivery.cli.views.dlq import left_out
from kafka_redelivery.dead_letters.index.index import LetterRow
from kafka_redelivery.dead_letters.index.summary import Summary, SummaryRow
from kafka_redelivery.dead_letters.summary_columns import By
from kafka_redelivery.topology.printable import printable, printable_time

_BARS: Final = "▁▂▃▄▅▆▇█"


def row_document(row: LetterRow) -> dict[str, Any]:
    """Return a letter as plain data for JSON, as :func:`letter_document`."""
    key = row.key if row.raw_key is None else row.raw_key.decode(errors="replace")
    return {
        "id": row.id,
        "sourceId": row.source_id or "",
        "group": row.group or "",
        "origin": row.origin or "",
        "diedMs": row.died_ms,
        "key": key,
        "reason": row.reason or "",
        "exception": row.exception or "",
        "message": row.message or "",
        "fingerprint": row.fingerprint or "",
        "deliveries": row.deliveries or "",
        "expiresMs": row.expiration_ms or None,
        "redrives": row.redrives,
        "state": row.state,
        "job": row.job,
        "sends": row.sends,
    }


def print_summary(console: Console, summary: Summary, by: Sequence[By], limit: int, *, as_json: bool) -> None:
    """Print a row for each kind, the most frequent first, then the total."""
    if as_json:
        print_json(_document(summary, limit))
        return
    if summary.rows:
        print_table(console, _table(summary, by, limit))
    console.print(_total(summary, limit))


@contextmanager
def following(
    console: Console, by: Sequence[By], limit: int, *, as_json: bool
) -> Iterator[Callable[[Summary, str], None]]:
    """Yield a function that shows a summary, and the problem that keeps it from being current, if there is one.

    On a terminal it replaces the table by one with what was added since the first, and leaves the last. Elsewhere it
    prints a line if more than the time has changed.
    """
    before: object = None
    first: Mapping[tuple[object, ...], int] | None = None

    def show(summary: Summary, problem: str) -> None:
        nonlocal before, first
        line = f"{printable_time(summary.to_ms)}: {_total(summary, limit)}" + (f"; {problem}" if problem else "")
        if live is not None:
            if first is None:
                first = {tuple(row.kind.values()): row.letters for row in summary.rows}
            text = Text(printable(line), style="yellow" if problem else "")
            live.update(Group(text, _table(summary, by, limit, first)), refresh=True)
            return
        kinds = [(row.kind, row.states, row.recovered) for row in summary.rows[:limit]]
        now = kinds, summary._replace(rows=[], from_ms=0, to_ms=0), bool(problem)
        if now != before and as_json:
            print_json(_document(summary, limit, problem), indent=None)
        elif now != before:
            console.print(line)
        before = now

    on_screen = console.is_terminal and not as_json
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") if on_screen else nullcontext() as live:
        yield show


def _total(summary: Summary, limit: int) -> str:
    more = f"; {len(summary.rows) - limit} more kinds (--limit)" if len(summary.rows) > limit else ""
    return f"{summary.letters} dead letters{left_out(summary.expired, summary.others, summary.unreadable)}{more}"


def _document(summary: Summary, limit: int, problem: str = "") -> dict[str, Any]:
    return {
        "ok": not problem,
        **({"problem": problem} if problem else {}),
        "letters": summary.letters,
        "expired": summary.expired,
        "ofOthers": summary.others,
        "unreadable": summary.unreadable,
        "fromMs": summary.from_ms,
        "toMs": summary.to_ms,
        "kinds": [
            {
                **{each.value: value for each, value in row.kind.items()},
                "letters": row.letters,
                "states": row.states,
                "oldestMs": row.first_ms,
                "newestMs": row.last_ms,
                "trend": list(row.trend),
                "expiresMs": row.expires_ms,
                "sent": row.sent,
                "recovered": row.recovered,
                "example": {"exception": row.exception, "message": row.message},
            }
            for row in summary.rows[:limit]
        ],
        "moreKinds": max(0, len(summary.rows) - limit),
    }


def _table(
    summary: Summary, by: Sequence[By], limit: int, before: Mapping[tuple[object, ...], int] | None = None
) -> Table:
    """Return a row for each kind; with the numbers of letters ``before`` also a column with the difference."""
    table = Table(box=None, pad_edge=False)
    changes = [] if before is None else ["change"]
    headings = [
        "letters",
        *changes,
        *by,
        *(["failure"] if By.FINGERPRINT in by else []),
        *([] if By.STATE in by else ["states"]),
    ]
    for heading in (*headings, "oldest", "newest", "trend", "expires", "recovered"):
        table.add_column(heading, overflow="fold", justify="right" if heading in {"letters", "change"} else "left")
    for row in summary.rows[:limit]:
        change = 0 if before is None else row.letters - before.get(tuple(row.kind.values()), 0)
        cells = [str(row.letters), *([f"{change:+d}" if change else ""] if changes else [])]
        cells += ["" if row.kind[each] is None else str(row.kind[each]) for each in by]
        cells += [_failure(row)] if By.FINGERPRINT in by else []
        cells += [] if By.STATE in by else [", ".join(f"{number} {state}" for state, number in row.states.items())]
        times = (printable_time(row.first_ms), printable_time(row.last_ms), sparkline(row.trend))
        expires = "" if row.expires_ms is None else printable_time(row.expires_ms)
        table.add_row(*cells, *times, expires, f"{row.recovered / row.sent:.0%} of {row.sent}" if row.sent else "")
    return table


def sparkline(numbers: Sequence[int]) -> str:
    """Return a bar for each number, blank for zero."""
    highest = max(numbers, default=0) or 1
    return "".join(" " if not each else _BARS[(each * len(_BARS) - 1) // highest] for each in numbers)


def _failure(row: SummaryRow) -> str:
    text = ": ".join(each for each in (row.exception, row.message) if each)
    return text if len(text) <= _FAILURE else text[: _FAILURE - 1] + "…"


_FAILURE: Final = 60
