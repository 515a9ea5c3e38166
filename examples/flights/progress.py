"""Progress bars on standard error, so that standard output has only the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.flights.feed import Feed
from examples.flights.late import LatePlanes
from examples.flights.ledger import Ledger
from examples.flights.truth import Ending, Expected


class Live:
    """Bars for the flights sent, the late planes and each outcome."""

    def __init__(
        self, console: Console, *, expected: Sequence[Expected], feed: Feed, late: LatePlanes, ledger: Ledger
    ) -> None:
        self._feed, self._late, self._ledger = feed, late, ledger
        expected_by_ending = Counter("dead_lettered" if each.ending.dead else each.ending.value for each in expected)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._fed = self._bars.add_task("flights sent", total=feed.total)
        self._planes = self._bars.add_task("late planes sent", total=late.total)
        self._redeliveries = self._bars.add_task("redeliveries", total=None)
        self._endings = {
            outcome: self._bars.add_task(outcome.replace("_", "-"), total=expected_by_ending[outcome])
            for outcome in (Ending.ACKED.value, Ending.RECOVERED.value, "dead_lettered")
        }

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show()
        self._bars.stop()

    def show(self) -> None:
        """Update the bars."""
        counts = self._ledger.counts
        self._bars.update(self._fed, completed=len(self._feed.sent))
        self._bars.update(self._planes, completed=self._late.sent)
        self._bars.update(self._redeliveries, completed=counts["retried"])
        for outcome, bar in self._endings.items():
            self._bars.update(bar, completed=counts[outcome])
