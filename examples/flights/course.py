"""The scenario from its first flight until each has ended, whoever runs worker and scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

from rich.console import Console

from examples.flights.books import Books
from examples.flights.check import check
from examples.flights.engine import Engine
from examples.flights.feed import Feed, send_planes
from examples.flights.late import LatePlanes
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger
from examples.flights.progress import Live
from examples.flights.report import Report
from examples.flights.scenario import Scenario
from examples.flights.topics import Follower, Sender

_STALLED_S: Final = 180.0
"""No record has ended for so long: the rest never will, and the check tells which. Longer than any delay, any
restart (of Spark, on a machine that has much else to do) and any time-out of the broker."""

_LOOK_S: Final = 0.05
_SHOW_S: Final = 0.2


class Stopwatch:
    """How long each phase took."""

    def __init__(self) -> None:
        self._since = monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """The phase ends here, the next begins."""
        now = monotonic()
        self.seconds[phase], self._since = now - self._since, now


@dataclass(frozen=True, slots=True)
class Course:
    """What is fed, and what is seen of it meanwhile. Made by :func:`course`."""

    servers: str
    layout: Layout
    books: Books
    feed: Feed
    late: LatePlanes
    journal: Follower
    ledger: Ledger
    engine: Engine

    def work(self, console: Console, watch: Callable[[], None]) -> None:
        """Everything a step at a time, until every record has ended or nothing ends any more.

        Args:
            console: where progress is shown.
            watch: called at each step; raises if it is of no use to go on.

        Raises:
            KafkaSilentError: a record could not be written.
        """
        with Live(console, expected=self.books.expected, feed=self.feed, late=self.late, ledger=self.ledger) as live:
            shown_s = news_s = monotonic()
            while len(self.ledger.ended) < self.feed.total:
                self.feed.step(self.ledger.delivered)
                self.late.step()
                news = self.journal.fetch(_LOOK_S)
                self.ledger.take(news)
                watch()
                now = monotonic()
                if news:
                    news_s = now
                if now - news_s > _STALLED_S:
                    return
                if now - shown_s > _SHOW_S:
                    shown_s = now
                    live.show()

    def report(self, restarts: Mapping[str, int], seconds: Mapping[str, float]) -> Report:
        """Look for every record in the topics, and compare with the CSV files.

        Args:
            restarts: by role.
            seconds: by phase; read when the report is shown.

        Raises:
            KafkaSilentError: a topic could not be read to its end.
        """
        self.ledger.take(self.journal.rest())
        findings = check(self.servers, self.layout, self.books, self.ledger)
        return Report(
            self.books.expected, findings, self.ledger.counts, self.ledger.lateness_ms, restarts, seconds, self.engine
        )


@contextmanager
def course(
    servers: str, given: Scenario, layout: Layout, sender: Sender, engine: Engine = Engine.WORKERS
) -> Iterator[Course]:
    """Get everything ready; nothing is sent yet."""
    with ExitStack() as stack:
        journal = stack.enter_context(closing(Follower(servers, [layout.journal])))
        first_tier = stack.enter_context(closing(Follower(servers, [layout.tiers[0]])))
        feed = Feed(sender, given, engine.ahead)
        late = LatePlanes(given, first_tier.fetch, lambda plane: send_planes(sender, [plane]))
        yield Course(servers, layout, Books(given, feed.sent), feed, late, journal, Ledger(), engine)
