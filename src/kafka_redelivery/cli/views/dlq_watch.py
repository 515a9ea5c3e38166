"""Dead letters that are followed live: a table on a terminal, else a line for each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from kafka_redelivery.cli.output import print_json
from kafka_redelivery.cli.views.dlq import left_out
from kafka_redelivery.cli.views.dlq_summary import summary_document, summary_table
from kafka_redelivery.dead_letters.index.summary import Summary
from kafka_redelivery.dead_letters.summary_columns import By
from kafka_redelivery.topology.printable import printable, printable_time


@contextmanager
def watching(
    console: Console, by: Sequence[By], limit: int, *, as_json: bool
) -> Iterator[Callable[[Summary, str], None]]:
    """Yield a function that shows a summary, and why a newer one is missing, if it is."""
    if as_json:
        yield _Lines(lambda found, problem: print_json(_document(found, problem, limit), indent=None), limit).show
    elif not console.is_terminal:
        yield _Lines(lambda found, problem: console.print(_line(found, problem)), limit).show
    else:
        # What is shown last stays on the terminal.
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield _Screen(live, by, limit).show


class _Lines:
    """Prints a line whenever something has changed."""

    def __init__(self, print_line: Callable[[Summary, str], None], limit: int) -> None:
        self._print, self._limit = print_line, limit
        self._before: object = None

    def show(self, found: Summary, problem: str) -> None:
        """Print a summary, unless it is the one before at a later time."""
        kinds = [(row.kind, row.states, row.recovered) for row in found.rows[: self._limit]]
        now = kinds, found.letters, found.expired, found.others, found.unreadable, bool(problem)
        if now != self._before:
            self._print(found, problem)
            self._before = now


class _Screen:
    """A table that is replaced by the next one."""

    def __init__(self, live: Live, by: Sequence[By], limit: int) -> None:
        self._live, self._by, self._limit = live, by, limit
        self._first: Mapping[tuple[object, ...], int] | None = None

    def show(self, found: Summary, problem: str) -> None:
        """Show a summary."""
        if self._first is None:
            self._first = {tuple(row.kind.values()): row.letters for row in found.rows}
        lines = [Text(_line(found, problem), style="yellow" if problem else "")]
        self._live.update(Group(summary_table(found, self._by, self._limit, self._first), *lines), refresh=True)


def _line(found: Summary, problem: str) -> str:
    hidden = left_out(found.expired, found.others, found.unreadable)
    total = f"{printable_time(found.to_ms)}: {found.letters} dead letters{hidden}"
    return printable(f"{total}; {problem}" if problem else total)


def _document(found: Summary, problem: str, limit: int) -> dict[str, Any]:
    at = {"ok": not problem, "atMs": found.to_ms, **({"problem": problem} if problem else {})}
    return {**at, **summary_document(found, limit)}
