"""The two sides of the check: what must be there, and what is missing, doubled or wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from examples.flights.data import Flight
from examples.flights.ledger import Place
from examples.flights.scenario import Broken, Scenario
from examples.flights.truth import Expected, expected
from examples.flights.wire import FLIGHTS
from transport.protocols import Message

MOST_FAULTS: Final = 20
"""So many are told one by one, the others are counted."""


@dataclass(slots=True)
class Faults:
    """What does not add up. Empty = every record is accounted for."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, fault: str) -> None:
        """Note one."""
        self.count += 1
        if len(self.first) < MOST_FAULTS:
            self.first.append(fault)

    def told(self) -> list[str]:
        """The first ones, and how many more there are."""
        more = self.count - len(self.first)
        return [*self.first, f"and {more} more"] if more else list(self.first)


@dataclass(slots=True)
class Books:
    """Every record of ``flights``: its place in the topic, its bytes, and how it must end."""

    given: Scenario
    sent: Sequence[tuple[bytes | None, bytes]]
    """Key and value of each record of the scenario, as far as they were sent."""

    faults: Faults = field(default_factory=Faults)
    expected: list[Expected] = field(init=False)
    at: dict[Place, int] = field(default_factory=dict)
    """The place of each record -> its number in the scenario."""

    def __post_init__(self) -> None:
        self.expected = [expected(record, self.given) for record in self.given.records]

    def enter(self, source: Iterable[Message]) -> None:
        """Find the place of each record sent, by its bytes: each must be in the topic once, and nothing else."""
        looked_for: defaultdict[tuple[bytes | None, bytes | None], list[int]] = defaultdict(list)
        for number, pair in enumerate(self.sent):
            looked_for[pair].append(number)
        for message in source:
            place = (message.partition(), message.offset())
            numbers = looked_for.get((message.key(), message.value()))
            if not numbers:
                self.faults.add(f"{FLIGHTS}-{place[0]}@{place[1]} is there though it was not sent, or not so often")
            elif place in self.at:
                self.faults.add(f"{FLIGHTS}-{place[0]}@{place[1]} was delivered twice to one consumer group")
            else:
                self.at[place] = numbers.pop()
        for numbers in looked_for.values():
            for number in numbers:
                self.faults.add(f"{self._told(number)} is not in {FLIGHTS}")
        unsent = len(self.given.records) - len(self.sent)
        if unsent:
            self.faults.add(f"{unsent} records were not sent at all")

    def fault(self, place: Place, what: str) -> None:
        """Note what is wrong with a record."""
        number = self.at.get(place)
        record = "which was never sent" if number is None else self._told(number)
        self.faults.add(f"{FLIGHTS}-{place[0]}@{place[1]} ({record}): {what}")

    def expectation(self, place: Place) -> Expected | None:
        """How the record of a place must end, ``None`` for one that was never sent."""
        number = self.at.get(place)
        return None if number is None else self.expected[number]

    def flight(self, place: Place) -> Flight | None:
        """The flight of a place, ``None`` if there is none or its bytes are broken."""
        number = self.at.get(place)
        record = None if number is None else self.given.records[number]
        return record if isinstance(record, Flight) else None

    def _told(self, number: int) -> str:
        record = self.given.records[number]
        flight = record.flight if isinstance(record, Broken) else record
        kind = "broken record after " if isinstance(record, Broken) else ""
        return (
            f"{kind}{flight.carrier} {flight.flight} from {flight.origin} on "
            f"{flight.year}-{flight.month:02}-{flight.day:02}"
        )
