"""The two sides of the check: which records must exist, and which are missing, duplicated or wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from examples.flights.data import Flight
from examples.flights.ledger import Position
from examples.flights.scenario import Broken, Scenario
from examples.flights.truth import Expected, expected_of_all
from examples.flights.wire import FLIGHTS
from kafka_redelivery.transport.protocols import Message

MAX_FAULTS_SHOWN: Final = 20
"""Further faults are only counted."""


@dataclass(slots=True)
class Faults:
    """Differences between expectation and topics. None means that every record is accounted for."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, fault: str) -> None:
        """Add a fault."""
        self.count += 1
        if len(self.first) < MAX_FAULTS_SHOWN:
            self.first.append(fault)

    def lines(self) -> list[str]:
        """The first faults, and the number of further ones."""
        more = self.count - len(self.first)
        return [*self.first, f"and {more} more"] if more else list(self.first)


@dataclass(slots=True)
class Accounting:
    """Every record of ``flights``: its position in the topic, its bytes, and its expected outcome."""

    given: Scenario
    sent: Sequence[tuple[bytes | None, bytes]]
    """Key and value of each record of the scenario that was sent."""

    blocking: bool = False
    """Whether later flights of a plane wait for one that failed."""

    faults: Faults = field(default_factory=Faults)
    overtaken: int = 0
    """Number of records that come behind a later one of their key, where none may."""

    expected: list[Expected] = field(init=False)
    at: dict[Position, int] = field(default_factory=dict)
    """Position of each record -> its number in the scenario."""

    def __post_init__(self) -> None:
        self.expected = expected_of_all(self.given, blocking=self.blocking)

    def locate(self, source: Iterable[Message]) -> None:
        """Find the position of each sent record by its bytes. Each must be in the topic once, and no other record."""
        looked_for: defaultdict[tuple[bytes | None, bytes | None], list[int]] = defaultdict(list)
        for number, pair in enumerate(self.sent):
            looked_for[pair].append(number)
        for message in source:
            position = (message.partition(), message.offset())
            numbers = looked_for.get((message.key(), message.value()))
            if not numbers:
                self.faults.add(f"{FLIGHTS}-{position[0]}@{position[1]} was not sent, or fewer times")
            elif position in self.at:
                self.faults.add(f"{FLIGHTS}-{position[0]}@{position[1]} was delivered twice to one consumer group")
            else:
                self.at[position] = numbers.pop()
        for numbers in looked_for.values():
            for number in numbers:
                self.faults.add(f"{self._describe(number)} is not in {FLIGHTS}")
        unsent = len(self.given.records) - len(self.sent)
        if unsent:
            self.faults.add(f"{unsent} records were not sent")

    def check_order(self, messages: Iterable[tuple[Position, bytes | None]]) -> None:
        """Verify that what came of the records of a key comes in their order, if their order is kept.

        Args:
            messages: position and key of the record of each, in the order of a topic.
        """
        last: dict[tuple[int, bytes | None], int] = {}
        for position, key in messages if self.blocking else ():
            partition, offset = position
            if offset < last.get((partition, key), -1):
                self.overtaken += 1
                self.fault(position, "comes behind a later record of its key")
            last[partition, key] = offset

    def fault(self, position: Position, what: str) -> None:
        """Add a fault of a record."""
        number = self.at.get(position)
        record = "never sent" if number is None else self._describe(number)
        self.faults.add(f"{FLIGHTS}-{position[0]}@{position[1]} ({record}): {what}")

    def expectation(self, position: Position) -> Expected | None:
        """The expected outcome of the record at ``position``, ``None`` if it was never sent."""
        number = self.at.get(position)
        return None if number is None else self.expected[number]

    def flight(self, position: Position) -> Flight | None:
        """The flight at ``position``, ``None`` if there is none or its bytes are broken."""
        number = self.at.get(position)
        record = None if number is None else self.given.records[number]
        return record if isinstance(record, Flight) else None

    def _describe(self, number: int) -> str:
        record = self.given.records[number]
        flight = record.flight if isinstance(record, Broken) else record
        kind = "broken record after " if isinstance(record, Broken) else ""
        return (
            f"{kind}{flight.carrier} {flight.flight} from {flight.origin} on "
            f"{flight.year}-{flight.month:02}-{flight.day:02}"
        )
