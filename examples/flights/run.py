"""The demo from its first topic to its report."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from rich.console import Console

from examples.flights.books import Books
from examples.flights.check import check
from examples.flights.children import Child, apply_topology
from examples.flights.errors import BrokerEndedError
from examples.flights.feed import Feed, send_planes
from examples.flights.late import LatePlanes
from examples.flights.layout import Layout
from examples.flights.ledger import Ledger
from examples.flights.progress import Live
from examples.flights.report import Report
from examples.flights.scenario import Scenario
from examples.flights.topics import Follower, Sender, create_topics
from examples.flights.wire import FLIGHTS, PLANES, SEAT_MILES
from transport.embedded import EmbeddedKafka

PARTITIONS: Final = 4

_STALLED_S: Final = 90.0
"""No record has ended for so long: the rest never will, and the check tells which. Longer than any delay, any
restart and any time-out of the broker."""

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
class Place:
    """Where the demo runs."""

    broker: EmbeddedKafka
    directory: Path
    """For the logs and process ids of worker and scheduler."""

    console: Console
    """Where progress is shown."""


def run(given: Scenario, layout: Layout, place: Place) -> Report:
    """Feed everything, let worker and scheduler work until every record has ended, check.

    Raises:
        DemoError: it cannot come to an end.
    """
    servers = place.broker.bootstrap_servers
    watch = Stopwatch()
    create_topics(servers, {FLIGHTS: PARTITIONS, PLANES: 1, SEAT_MILES: PARTITIONS})
    apply_topology(servers, place.directory)
    sender = Sender(servers)
    # Before the worker starts: its handler begins with every plane that is there, so nothing on time is ever retried.
    send_planes(sender, (plane for tail, plane in given.planes.items() if tail not in given.awaited))
    sender.flush()
    watch.lap("topics")
    with ExitStack() as stack:
        journal = stack.enter_context(closing(Follower(servers, [layout.journal])))
        ledger = Ledger()
        first_tier = stack.enter_context(closing(Follower(servers, [layout.tiers[0]])))
        feed = Feed(sender, given)
        late = LatePlanes(given, first_tier.fetch, lambda plane: send_planes(sender, [plane]))
        children = [stack.enter_context(Child(role, servers, place.directory)) for role in ("worker", "scheduler")]
        books = Books(given, feed.sent)
        with Live(place.console, expected=books.expected, feed=feed, late=late, ledger=ledger) as live:
            _work(_Parts(place.broker, feed, late, journal, ledger, children, live))
        sender.flush()
        watch.lap("work")
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()
        watch.lap("stop")
        with place.console.status("checking every record against the CSV files"):
            ledger.take(journal.rest())
            findings = check(servers, layout, books, ledger)
        watch.lap("check")
    restarts = {child.role: child.restarts for child in children}
    return Report(books.expected, findings, ledger.counts, ledger.lateness_ms, restarts, watch.seconds)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Everything that goes on at the same time."""

    broker: EmbeddedKafka
    feed: Feed
    late: LatePlanes
    journal: Follower
    ledger: Ledger
    children: list[Child]
    live: Live


def _work(parts: _Parts) -> None:
    """Everything a step at a time, until every record has ended or nothing ends any more."""
    shown_s = news_s = monotonic()
    while len(parts.ledger.ended) < parts.feed.total:
        parts.feed.step(parts.ledger.delivered)
        parts.late.step()
        news = parts.journal.fetch(_LOOK_S)
        parts.ledger.take(news)
        for child in parts.children:
            child.watch()
        if not parts.broker.running:
            raise BrokerEndedError
        now = monotonic()
        if news:
            news_s = now
        if now - news_s > _STALLED_S:
            return
        if now - shown_s > _SHOW_S:
            shown_s = now
            parts.live.show()
