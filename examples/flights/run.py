"""Runs the demo, from its first topic to its report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from examples.flights import redrive
from examples.flights.children import Child, command
from examples.flights.engine import Engine
from examples.flights.errors import BrokerEndedError
from examples.flights.feed import send_planes
from examples.flights.layout import Layout
from examples.flights.outage import Cost, Outage
from examples.flights.playback import Stopwatch, playback
from examples.flights.report import Report
from examples.flights.roles import WITHOUT, Role, broker, redelivery
from examples.flights.scenario import Scenario
from examples.flights.topics import Sender, create_topics, read_all
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

    outage_s: float | None = None
    """How long the book of flights is away in mid-run; ``None`` = the handler asks no book."""

    settings: Sequence[str] = ()
    """Of the group's processes, in addition to the configuration file."""


def run(given: Scenario, layout: Layout, environment: DemoEnvironment) -> Report | Cost:
    """Send all records, run the group's processes until each record has ended, and check.

    Without the book as a dependency its outage decides what becomes of records, so only its cost is counted.

    Raises:
        DemoError: the demo cannot finish.
    """
    servers = environment.broker.bootstrap_servers
    stopwatch = Stopwatch()
    create_topics(servers, {FLIGHTS: PARTITIONS, PLANES: 1, SEAT_MILES: PARTITIONS})
    command(("topology", "apply"), servers, environment.directory / "topology.log", settings=environment.settings)
    sender = Sender(servers)
    # Before the worker starts: its handler first reads all planes, so a flight whose plane is on time is never retried.
    later = given.missing | given.awaited.keys()
    send_planes(sender, (plane for tail, plane in given.planes.items() if tail not in later))
    sender.flush()
    stopwatch.lap("topics")
    with ExitStack() as stack:
        all_flights = stack.enter_context(playback(servers, given, layout, sender, environment.engine))
        roles = environment.engine.roles(environment.directory, servers, environment.settings)
        cluster = [stack.enter_context(Child(role, environment.directory)) for role in roles.cluster]
        children: list[Child] = []
        outage = None
        if environment.outage_s is not None:
            outage = _outage(environment.outage_s, environment, len(given.records), children, stack)
            worker, scheduler = roles.group
            roles = roles._replace(group=[_asking(worker, outage), scheduler])
        children += [stack.enter_context(Child(role, environment.directory)) for role in roles.group]

        def watch() -> None:
            _watch(environment.broker, [*cluster, *children])
            if outage is not None:
                outage.step()

        all_flights.work(environment.console, watch)
        sender.flush()
        stopwatch.lap("work")
        job = None
        if given.missing:
            redrive.list_letters(servers, environment.directory, environment.console)
            environment.console.print(f"The cause is fixed: {len(given.missing)} missing planes are sent.")
            send_planes(sender, (given.planes[tail] for tail in given.missing))
            sender.flush()
            redrive.send_again(servers, environment.directory, environment.console)
            all_flights.work_again(environment.console, watch)
            job = redrive.job(servers, environment.directory)
            stopwatch.lap("redrive")
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()
        stopwatch.lap("stop")
        if outage is not None and environment.settings == WITHOUT:
            return outage.cost(read_all(servers, [layout.dead_letters, *layout.tiers]))
        with environment.console.status("checking every record against the CSV files"):
            report = all_flights.report({child.role: child.restarts for child in children}, stopwatch.seconds, job)
            if outage is not None:
                copies = read_all(servers, [layout.dead_letters, *layout.tiers])
                report = replace(report, outage=outage.cost(copies))
        stopwatch.lap("check")
    return report


def _outage(
    seconds: float, environment: DemoEnvironment, flights: int, children: list[Child], stack: ExitStack
) -> Outage:
    """Start the book of flights; its outage kills the first of the children, and adds one to them."""

    def kill() -> None:
        children[0].kill()

    def add() -> None:
        worker = redelivery(("worker",), "instance=2", *environment.settings)
        role = Role("worker-2", worker, broker(environment.broker.bootstrap_servers))
        children.append(stack.enter_context(Child(_asking(role, outage), environment.directory)))

    outage = Outage(seconds, flights, kill=kill, add=add, say=environment.console.print)
    stack.enter_context(outage.book)
    return outage


def _asking(role: Role, outage: Outage) -> Role:
    """Return a worker that asks the book."""
    return replace(role, environment={**role.environment, **outage.book.variables})


def _watch(broker: EmbeddedKafka, children: list[Child]) -> None:
    for child in children:
        child.watch()
    if not broker.running:
        raise BrokerEndedError
