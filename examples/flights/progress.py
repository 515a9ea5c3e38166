"""Progress bars on standard error, so that standard output has only the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Bar(NamedTuple):
    """What a bar shows."""

    done: Callable[[], int]
    total: int | None = None


class Live:
    """Bars, each with its description."""

    def __init__(self, console: Console, bars: Mapping[str, Bar]) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._bars = [(self._progress.add_task(text, total=bar.total), bar) for text, bar in bars.items()]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show()
        self._progress.stop()

    def show(self) -> None:
        """Update the bars."""
        for task, bar in self._bars:
            self._progress.update(task, completed=bar.done())
