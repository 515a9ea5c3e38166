"""Runs the demo, from its first topic to its report."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from examples.flights import redrive
from examples.flights.children import Child, command
from examples.flights.engine import Engine
from examples.flights.errors import BrokerEndedError
from examples.flights.feed import send_planes
from examples.flights.layout import Layout
from examples.flights.playback import Stopwatch, playback
from examples.flights.report import Report
from examples.flights.scenario import Scenario
from examples.flights.topics import Sender, create_topics
from examples.flights.wire import FLIGHTS, PLANES, SEAT_MILES
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka

PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class DemoEnvironment:
    """Broker, directory and console of a run."""

    broker: EmbeddedKafka
    directory: Path
    """For logs and pid files."""

    console: Console
    """Shows progress."""

    engine: Engine = Engine.WORKERS
    """What runs the handler."""


def run(given: Scenario, layout: Layout, environment: DemoEnvironment) -> Report:
    """Send all records, run the group's processes until each record has ended, and check.

    Raises:
        DemoError: the demo cannot finish.
    """
    servers = environment.broker.bootstrap_servers
    watch = Stopwatch()
    create_topics(servers, {FLIGHTS: PARTITIONS, PLANES: 1, SEAT_MILES: PARTITIONS})
    command(("topology", "apply"), servers, environment.directory / "topology.log")
    sender = Sender(servers)
    # Before the worker starts: its handler first reads all planes, so a flight whose plane is on time is never retried.
    later = given.missing | given.awaited.keys()
    send_planes(sender, (plane for tail, plane in given.planes.items() if tail not in later))
    sender.flush()
    watch.lap("topics")
    with ExitStack() as stack:
        all_flights = stack.enter_context(playback(servers, given, layout, sender, environment.engine))
        roles = environment.engine.roles(environment.directory, servers)
        cluster = [stack.enter_context(Child(role, environment.directory)) for role in roles.cluster]
        children = [stack.enter_context(Child(role, environment.directory)) for role in roles.group]
        all_flights.work(environment.console, lambda: _watch(environment.broker, [*cluster, *children]))
        sender.flush()
        watch.lap("work")
        job = None
        if given.missing:
            redrive.list_letters(servers, environment.directory, environment.console)
            environment.console.print(f"The cause is fixed: {len(given.missing)} missing planes are sent.")
            send_planes(sender, (given.planes[tail] for tail in given.missing))
            sender.flush()
            redrive.send_again(servers, environment.directory, environment.console)
            all_flights.work_again(environment.console, lambda: _watch(environment.broker, [*cluster, *children]))
            job = redrive.job(servers, environment.directory)
            watch.lap("redrive")
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()
        watch.lap("stop")
        with environment.console.status("checking every record against the CSV files"):
            report = all_flights.report({child.role: child.restarts for child in children}, watch.seconds, job)
        watch.lap("check")
    return report


def _watch(broker: EmbeddedKafka, children: list[Child]) -> None:
    for child in children:
        child.watch()
    if not broker.running:
        raise BrokerEndedError
