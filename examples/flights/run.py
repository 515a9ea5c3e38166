"""The demo from its first topic to its report."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from examples.flights.children import Child, apply_topology
from examples.flights.course import Stopwatch, course
from examples.flights.engine import Engine
from examples.flights.errors import BrokerEndedError
from examples.flights.feed import send_planes
from examples.flights.layout import Layout
from examples.flights.report import Report
from examples.flights.scenario import Scenario
from examples.flights.topics import Sender, create_topics
from examples.flights.wire import FLIGHTS, PLANES, SEAT_MILES
from transport.embedded import EmbeddedKafka

PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where the demo runs."""

    broker: EmbeddedKafka
    directory: Path
    """For the logs and process ids of what runs."""

    console: Console
    """Where progress is shown."""

    engine: Engine = Engine.WORKERS
    """Who runs the handler."""


def run(given: Scenario, layout: Layout, place: Place) -> Report:
    """Feed everything, let the group's processes work until every record has ended, check.

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
        all_flights = stack.enter_context(course(servers, given, layout, sender, place.engine))
        roles = place.engine.roles(place.directory)
        children = [stack.enter_context(Child(role, servers, place.directory)) for role in roles]
        all_flights.work(place.console, lambda: _watch(place.broker, children))
        sender.flush()
        watch.lap("work")
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()
        watch.lap("stop")
        with place.console.status("checking every record against the CSV files"):
            report = all_flights.report({child.role: child.restarts for child in children}, watch.seconds)
        watch.lap("check")
    return report


def _watch(broker: EmbeddedKafka, children: list[Child]) -> None:
    for child in children:
        child.watch()
    if not broker.running:
        raise BrokerEndedError
