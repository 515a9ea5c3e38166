"""Sends flights to a worker that runs elsewhere, as in ``deploy/compose.yaml``.

    python -m examples.flights.stream topics    create the demo's topics, and send the planes that are on time
    python -m examples.flights.stream feed      send flights at a steady rate until stopped
    python -m examples.flights.stream check     send each flight once, wait until all have ended, and check every record

The environment variable ``FLIGHTS_BROKER`` names the Kafka, ``FLIGHTS_DAYS`` the number of days (default: 31). Use the
same days for ``topics`` and ``check``: they determine which planes are late.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from itertools import cycle, islice
from time import monotonic
from typing import Final

from confluent_kafka.admin import AdminClient
from rich.console import Console

from examples.flights import data
from examples.flights.broken import record_of
from examples.flights.errors import DemoError, TopicInUseError
from examples.flights.feed import send_planes
from examples.flights.layout import Layout, layout
from examples.flights.playback import Stopwatch, playback
from examples.flights.report import Report, show
from examples.flights.scenario import Broken, Scenario, scenario
from examples.flights.topics import Sender, create_topics, read_all
from examples.flights.wire import FLIGHTS, PLANES, SEAT_MILES

PARTITIONS: Final = 4

_LATE_S: Final = 6.0
"""Time from a late plane's first flight until the plane is sent: within the 15 s of the policy's redeliveries."""

_STEP_S: Final = 0.1
_TIMEOUT_S: Final = 30.0


def prepare(servers: str, given: Scenario) -> None:
    """Create missing topics, and send the planes that are on time. May be repeated.

    Raises:
        KafkaAccessError: Kafka does not answer, or refuses.
    """
    there = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=_TIMEOUT_S).topics
    wanted = {FLIGHTS: PARTITIONS, PLANES: 1, SEAT_MILES: PARTITIONS}
    missing = {name: number for name, number in wanted.items() if name not in there}
    if missing:
        create_topics(servers, missing)
    sender = Sender(servers)
    send_planes(sender, (plane for tail, plane in given.planes.items() if tail not in given.awaited))
    sender.flush()


def feed(servers: str, given: Scenario, per_second: int, stopping: threading.Event) -> int:
    """Send flights, over and over, until ``stopping`` is set. Returns the number sent.

    Raises:
        KafkaAccessError: a record could not be written.
    """
    sender = Sender(servers)
    late_at: dict[str, float] = {}
    records = cycle(given.records)
    begun_s, sent = monotonic(), 0
    while not stopping.wait(_STEP_S):
        now = monotonic()
        for _ in range(int((now - begun_s) * per_second) - sent):
            record = next(records)
            sender.send(FLIGHTS, *record_of(record))
            sent += 1
            tail = record.tailnum if not isinstance(record, Broken) else None
            if tail is not None and tail in given.awaited:
                late_at.setdefault(tail, now + _LATE_S)
        arrived = [tail for tail, at in late_at.items() if at <= now]
        send_planes(sender, (given.planes[tail] for tail in arrived))
        late_at |= dict.fromkeys(arrived, float("inf"))
        sender.poll()
    sender.flush()
    return sent


def check(servers: str, given: Scenario, names: Layout, console: Console) -> Report:
    """Send each flight once, wait until all have ended, and check every record.

    Raises:
        TopicInUseError: the topic already has flights.
        KafkaAccessError: Kafka does not answer, or a topic could not be read to its end.
    """
    if list(islice(read_all(servers, [FLIGHTS]), 1)):
        raise TopicInUseError(FLIGHTS)
    watch = Stopwatch()
    sender = Sender(servers)
    with playback(servers, given, names, sender) as all_flights:
        all_flights.work(console, lambda: None)
        sender.flush()
        watch.lap("work")
        report = all_flights.report({}, watch.seconds)
        watch.lap("check")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code: 1 if a record is not accounted for, or something failed."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights.stream", description=__doc__)
    parser.add_argument("what", choices=["topics", "feed", "check"])
    days = int(os.environ.get("FLIGHTS_DAYS", data.JANUARY))
    parser.add_argument("--days", type=int, default=days, help="days of the year (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=50, help="flights to send per second (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        return _run(options, os.environ.get("FLIGHTS_BROKER", "localhost:9092"))
    except DemoError as error:
        print(f"flights: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace, servers: str) -> int:
    given = scenario(data.flights(options.days), data.planes())
    if options.what == "topics":
        prepare(servers, given)
        return 0
    if options.what == "check":
        report = check(servers, given, layout(), Console(stderr=True, emoji=False, markup=False))
        show(report, Console(emoji=False, markup=False))
        return 0 if report.conserved else 1
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    print(f"{feed(servers, given, options.rate, stopping)} flights sent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
