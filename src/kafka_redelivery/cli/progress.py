"""Progress of long work: a bar on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_INTERVAL_S = 10.0


@contextmanager
def progress(console: Console, activity: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress while the block runs.

    Args:
        console: where to show it; never the one for results.
        activity: names the work, as in "reading dead letters".

    Yields:
        a function to call with the finished and the total number.
    """
    if not console.is_terminal:
        yield _line_printer(console, activity)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(activity, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _line_printer(console: Console, activity: str) -> Callable[[int, int], None]:
    printed_s = time.monotonic()

    def update(done: int, total: int) -> None:
        nonlocal printed_s
        if time.monotonic() - printed_s >= _INTERVAL_S:
            printed_s = time.monotonic()
            console.print(f"{activity}: {done} of {total}")

    return update
