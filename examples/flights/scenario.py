"""What is fed into the topics, and in which order. Decided by the data alone, the same at every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from examples.flights.data import Flight, Plane

BROKEN: Final = 300
"""How many records of broken bytes are mixed in."""

LATE_ONE_IN: Final = 20
"""Of the planes that fly in the range, every one of this many arrives late."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A record that nobody can decode: the ``number``-th of them, made from a flight."""

    number: int
    flight: Flight


@dataclass(frozen=True, slots=True)
class Scenario:
    """The content of the topics ``planes`` and ``flights``."""

    planes: Mapping[str, Plane]
    """By tail number."""

    awaited: Mapping[str, int]
    """For each plane that arrives late, how many flights wait for it."""

    records: Sequence[Flight | Broken]
    """The topic ``flights``, in the order of feeding."""


def scenario(flights: Sequence[Flight], planes: Iterable[Plane]) -> Scenario:
    """Choose the late planes, put the flights in order, mix the broken records in.

    A late plane is sent when each of its flights has been seen in a retry tier, and must reach the handler before the
    first of them has had its last attempt; otherwise who recovers would depend on the speed of the machine. So the
    flights of late planes come first, plane by plane: they have the same key, lie side by side in one partition, and
    are tried for the first time within moments of each other, however slow the worker is and however often it dies.
    The policy then leaves 15 seconds, of which nothing is used while worker or scheduler are down.
    """
    known = {plane.tailnum: plane for plane in planes}
    flown = sorted({tail for flight in flights if (tail := _needs(flight)) in known and tail is not None})
    late = frozenset(flown[::LATE_ONE_IN])
    waiting = [flight for flight in flights if _needs(flight) in late]
    waiting.sort(key=lambda flight: str(flight.tailnum))
    rest = [flight for flight in flights if _needs(flight) not in late]
    awaited = Counter(str(flight.tailnum) for flight in waiting)
    return Scenario(known, awaited, _mixed([*waiting, *rest]))


def _needs(flight: Flight) -> str | None:
    """The plane a flight is handled with, ``None`` if it was cancelled or has none."""
    return None if flight.dep_time is None else flight.tailnum


def _mixed(flights: Sequence[Flight]) -> list[Flight | Broken]:
    """The flights with a broken record after each of ``BROKEN`` evenly spread ones."""
    count = min(BROKEN, len(flights))
    after = {(number + 1) * len(flights) // count - 1: number for number in range(count)}
    return list(
        chain.from_iterable(
            (flight, Broken(after[index], flight)) if index in after else (flight,)
            for index, flight in enumerate(flights)
        )
    )
