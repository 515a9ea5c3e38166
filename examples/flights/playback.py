"""Plays the scenario from the first flight until each record has ended. Worker and scheduler run elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from rich.console import Console

from examples.flights.accounting import Accounting
from examples.flights.check import check
from examples.flights.engine import Engine
from examples.flights.feed import Feed, send_planes
from examples.flights.late import FailedFlights, LatePlanes
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger
from examples.flights.progress import Bar, Live
from examples.flights.redrive import check_job
from examples.flights.report import Report
from examples.flights.scenario import Scenario
from examples.flights.topics import Follower, Sender
from examples.flights.wire import FLIGHTS
from kafka_redelivery.transport.protocols import Message

_STALLED_S: Final = 180.0
"""If no record ends for this long, the playback ends, and the check lists the pending records. Longer than any delay,
any restart (of Spark, on a busy machine) and any time-out of the broker."""

_STARTING_S: Final = 600.0
"""The same before the first outcome: on an overloaded machine the start of Spark alone takes some minutes."""

_POLL_S: Final = 0.05
_SHOW_S: Final = 0.2


class Stopwatch:
    """Measures how long each phase takes."""

    def __init__(self) -> None:
        self._since = monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """End the current phase under this name, and begin the next."""
        now = monotonic()
        self.seconds[phase], self._since = now - self._since, now


@dataclass(frozen=True, slots=True)
class Playback:
    """What is sent, and what the journal and the tiers show meanwhile. Made by :func:`playback`."""

    servers: str
    layout: Layout
    accounting: Accounting
    feed: Feed
    late: LatePlanes
    journal: Follower
    ledger: Ledger
    engine: Engine

    def work(self, console: Console, watch: Callable[[], None]) -> None:
        """Send and observe, step by step, until every record has ended or no record ends any more.

        Args:
            console: where progress is shown.
            watch: called at each step; raises to end the playback.

        Raises:
            KafkaAccessError: a record could not be written.
        """
        totals = Counter(each.ending.journalled for each in self.accounting.expected)
        counts = self.ledger.counts
        bars = {
            "flights sent": Bar(lambda: len(self.feed.sent), self.feed.total),
            "late planes sent": Bar(lambda: self.late.sent, self.late.total),
            "redeliveries": Bar(lambda: counts["retried"]),
        } | _bars_of(counts, totals, "acked", "recovered", "dead_lettered")
        self._observe(lambda: len(self.ledger.ended) >= self.feed.total, Live(console, bars), watch)

    def work_again(self, console: Console, watch: Callable[[], None]) -> None:
        """Observe until every record whose dead letter was sent again has ended again, or no record ends any more.

        Args:
            console: where progress is shown.
            watch: called at each step; raises to end the playback.
        """
        expected = [each.again.journalled for each in self.accounting.expected if each.again is not None]
        bars = _bars_of(self.ledger.counts_again, Counter(expected), "recovered", "dead_lettered")
        self._observe(lambda: len(self.ledger.ended_again) >= len(expected), Live(console, bars), watch)

    def _observe(self, ended: Callable[[], bool], bars: Live, watch: Callable[[], None]) -> None:
        with bars as live:
            shown_s = news_s = monotonic()
            patience_s = _STARTING_S
            while not ended():
                self.feed.step(self.ledger.delivered)
                self.late.step()
                news = self.journal.fetch(_POLL_S)
                self.ledger.take(news)
                watch()
                now = monotonic()
                if news:
                    news_s, patience_s = now, _STALLED_S
                if now - news_s > patience_s:
                    return
                if now - shown_s > _SHOW_S:
                    shown_s = now
                    live.show()

    def report(
        self, restarts: Mapping[str, int], seconds: Mapping[str, float], job: Mapping[str, int] | None = None
    ) -> Report:
        """Find every record in the topics, and compare with the CSV files.

        Args:
            restarts: by role.
            seconds: by phase; read when the report is shown.
            job: what the job says about the dead letters that it has sent again, if there was one.

        Raises:
            KafkaAccessError: a topic could not be read to its end.
        """
        self.ledger.take(self.journal.rest())
        if job is not None:
            check_job(self.accounting, job)
        findings = check(self.servers, self.layout, self.accounting, self.ledger)
        return Report(
            self.accounting.expected,
            findings,
            self.ledger.counts,
            self.ledger.lateness_ms,
            restarts,
            seconds,
            self.engine,
            blocking=self.layout.blocking,
        )


def _bars_of(counts: Mapping[str, int], totals: Mapping[str, int], *outcomes: str) -> dict[str, Bar]:
    """A bar for each outcome."""
    return {
        outcome.replace("_", "-"): Bar(lambda outcome=outcome: counts[outcome], totals[outcome])  # type: ignore[misc]
        for outcome in outcomes
    }


@contextmanager
def playback(
    servers: str, given: Scenario, layout: Layout, sender: Sender, engine: Engine = Engine.WORKERS
) -> Iterator[Playback]:
    """Open the clients; nothing is sent yet."""
    with ExitStack() as stack:
        journal = stack.enter_context(closing(Follower(servers, [layout.journal])))
        failed = stack.enter_context(closing(Follower(servers, [FLIGHTS if layout.blocking else layout.tiers[0]])))
        feed, ledger = Feed(sender, given, engine.max_undelivered), Ledger()
        awaited = given
        look: Callable[[], Iterable[Message]] = failed.fetch
        if layout.blocking:  # the other flights of a plane wait behind the first
            awaited = replace(given, awaited=dict.fromkeys(given.awaited, 1))
            look = FailedFlights(given, failed.fetch, ledger)
        late = LatePlanes(awaited, look, lambda plane: send_planes(sender, [plane]))
        accounting = Accounting(given, feed.sent, layout.blocking)
        yield Playback(servers, layout, accounting, feed, late, journal, ledger, engine)
