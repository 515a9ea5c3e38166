"""How far long work is, for who waits for it: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LINE_S = 10.0


@contextmanager
def progress(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far it is while the block runs.

    Args:
        console: where; never the one that gets the result.
        what: is being done.

    Yields:
        is to be told how much is done, and how much there is to do.
    """
    if not console.is_terminal:
        yield _lines(console, what)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(console: Console, what: str) -> Callable[[int, int], None]:
    told_s = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _LINE_S:
            told_s = time.monotonic()
            console.print(f"{what}: {done} of {total}")

    return tell
