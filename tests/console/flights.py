"""A day of the flights demo: flights whose plane is not known, or whose bytes are broken, become dead letters."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from examples.flights.broken import broken_record
from examples.flights.data import Flight, Plane, flights, planes
from examples.flights.scenario import Broken
from examples.flights.wire import CONFIG, FLIGHTS, HERE, PLANES, SEAT_MILES, flight_record, plane_record
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.waiting import until

MISSING: Final = "EMBRAER"
"""The planes of this manufacturer come too late, which is the failure that is repaired and redriven."""

GROUP: Final = "seat-miles"
DEAD_LETTERS: Final = f"DLQ.{FLIGHTS}"
READY: Final = f"{GROUP}.ready.{FLIGHTS}"
BROKEN: Final = 8
_FLIGHTS: Final = 400
_SOON: Final = {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 400}
_LATER: Final = {"maximumRedeliveries": 3, "initialRedeliveryDelay": 300_000, "redeliveryDelay": 900_000}


class Flights:
    """The group of the demo, with a worker and a scheduler."""

    def __init__(self, kafka: EmbeddedKafka, folder: Path) -> None:
        """Create the topics, and start the processes."""
        self.cluster = Cluster(kafka.bootstrap_servers)
        self.group = Group(self.cluster, GROUP, folder)
        known = {each.tailnum: each for each in planes()}
        self.late = [each for each in known.values() if each.manufacturer == MISSING]
        self._there = [each for each in known.values() if each.manufacturer != MISSING]
        self.flights = flights(1)[:_FLIGHTS]
        self.unknown = [each for each in self.flights if _lacks(each, {plane.tailnum for plane in self._there})]
        """Flights that become dead letters because their plane is not known."""

        self.recoverable = sum(each.tailnum in known for each in self.unknown)
        """How many of them succeed as soon as the late planes are there."""

        self.never = next(each for each in self.unknown if each.tailnum not in known)
        """One of the others."""

        self._running: list[Process] = []
        self.cluster.create(FLIGHTS, SEAT_MILES, PLANES, partitions=2)
        for policy in (_LATER, _SOON):  # the topics of both: a group with members makes a later change wait for them
            self._configure(**policy)
            self.group.apply()

    def _configure(self, **policy: int | bool) -> None:
        configuration = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
        configuration["kafka"] = {"bootstrap.servers": self.cluster.servers, "log_level": 0}
        configuration["handler"] = {"callable": "examples.flights.handler:SeatMiles"}
        configuration["dependencies"]["book"]["unavailable"] = ["examples.flights.handler:BookAwayError"]
        configuration["policyEntry"]["redeliveryPolicy"] = policy
        configuration["deadLetters"] = {"index": {"path": str(self.group.folder / "index"), "values": True}}
        for section in (configuration["sources"][0], configuration["outputs"][0]):
            schemas = section["value"]["schemas"]
            section["value"]["schemas"] = {number: str(HERE / path) for number, path in schemas.items()}
        self.group.configuration = configuration
        self.group.file.write_text(json.dumps(configuration), encoding="utf-8")

    def fail(self) -> None:
        """Send the flights, and wait until those of unknown planes, and the broken ones, are dead letters."""
        self.send_planes(self._there)
        self._start()
        records = [flight_record(each) for each in self.flights]
        records += [broken_record(Broken(number, self.flights[number])) for number in range(BROKEN)]
        self.cluster.produce(FLIGHTS, [Sent(value, key) for key, value in records])
        wanted = len(self.unknown) + BROKEN
        until(lambda: len(self.cluster.read(DEAD_LETTERS)) >= wanted, "the flights that fail are dead letters")

    def wait(self) -> None:
        """Send more flights of unknown planes, under a policy that lets them wait for minutes."""
        for each in self._running:
            each.begin_to_stop()
        for each in self._running:
            each.finish_stopping()
        self._configure(**_LATER)
        self._start()
        again = [flight_record(each) for each in self.unknown[:40]]
        self.cluster.produce(FLIGHTS, [Sent(value, key) for key, value in again])
        until(lambda: sum(self.cluster.ends(self.group.tier("5m")).values()), "flights wait")

    def _start(self) -> None:
        environment = {**os.environ, "FLIGHTS_BROKER": self.cluster.servers}
        self._running = []
        for role in ("worker", "scheduler"):
            command = [*COMMAND, role, f"--config={self.group.file}", f"--set=instance={role}-1"]
            log = self.group.folder / f"{role}.log"
            self._running.append(Process(role, command, environment, log, warm=True))
        self.group.processes += self._running

    def send_planes(self, which: list[Plane]) -> None:
        """Make planes known."""
        self.cluster.produce(PLANES, [Sent(value, key) for key, value in map(plane_record, which)])


def _lacks(flight: Flight, there: set[str]) -> bool:
    return flight.dep_time is not None and (flight.tailnum is None or flight.tailnum not in there)


@contextmanager
def failed_flights(folder: Path) -> Iterator[Flights]:
    """Run the demo's group on a Kafka of its own until its flights have failed."""
    with EmbeddedKafka() as kafka:
        found = Flights(kafka, folder)
        try:
            found.fail()
            yield found
        finally:
            found.group.close()
