"""The expected outcome of every record, from the CSV files alone. Shares no code with the handler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from examples.flights.data import Flight
from examples.flights.scenario import Broken, Scenario


class Ending(StrEnum):
    """Outcomes of a record. Those of dead letters are named after their reason codes."""

    ACKED = "acked"
    RECOVERED = "recovered"
    REJECTED = "rejected"
    UNDECODABLE = "undecodable"
    REDELIVERIES_EXCEEDED = "redeliveries_exceeded"

    @property
    def dead(self) -> bool:
        """Whether the record is dead-lettered."""
        return self not in {Ending.ACKED, Ending.RECOVERED}

    @property
    def journalled(self) -> str:
        """Its name in the journal."""
        return "dead_lettered" if self.dead else self.value


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected outcome of a record, and its seat-miles if it has any."""

    ending: Ending
    seat_miles: int | None = None
    again: Ending | None = None
    """Expected outcome of its dead letter that is sent again; ``None`` = it is not sent again."""


_UNDECODABLE: Final = Expected(Ending.UNDECODABLE)
_REJECTED: Final = Expected(Ending.REJECTED)
_CANCELLED: Final = Expected(Ending.ACKED)
_EXCEEDED: Final = Expected(Ending.REDELIVERIES_EXCEEDED)
_DEAD_AGAIN: Final = Expected(Ending.REDELIVERIES_EXCEEDED, again=Ending.REDELIVERIES_EXCEEDED)


def expected_of_all(given: Scenario, *, blocking: bool = False) -> list[Expected]:
    """Expected outcome of each record.

    Args:
        given: the records.
        blocking: the later flights of a plane wait for one that failed. Then only the first flight of a late plane
            fails: the plane is known when the others are handled.
    """
    found = [expected(record, given) for record in given.records]
    waited: set[str | None] = set()
    for number, (record, each) in enumerate(zip(given.records, found, strict=True)):
        if blocking and isinstance(record, Flight) and each.ending is Ending.RECOVERED:
            if record.tailnum in waited:
                found[number] = replace(each, ending=Ending.ACKED)
            waited.add(record.tailnum)
    return found


def expected(record: Flight | Broken, given: Scenario) -> Expected:
    """Expected outcome of one record. The rules are in the order in which they apply."""
    if isinstance(record, Broken):
        return _UNDECODABLE
    if record.tailnum is None:
        return _REJECTED
    if record.dep_time is None:
        return _CANCELLED
    plane = given.planes.get(record.tailnum)
    if plane is None:
        return _DEAD_AGAIN if given.missing else _EXCEEDED
    if record.tailnum in given.missing:
        return Expected(Ending.REDELIVERIES_EXCEEDED, plane.seats * record.distance, Ending.RECOVERED)
    ending = Ending.RECOVERED if record.tailnum in given.awaited else Ending.ACKED
    return Expected(ending, plane.seats * record.distance)
