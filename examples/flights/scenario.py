"""Which records are sent, and in which order. Derived from the data, so it is the same in every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from examples.flights.data import Flight, Plane

BROKEN: Final = 300
"""Number of records with broken bytes."""

LATE_ONE_IN: Final = 20
"""One in this many planes of the chosen days arrives late."""

MISSING_MAKER: Final = "EMBRAER"
"""With ``--redrive`` the planes of this manufacturer are missing until their flights are dead letters. Together with
the planes that are in no file, a third of the year's flights become dead letters."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The ``number``-th record that cannot be decoded, made from a flight."""

    number: int
    flight: Flight


@dataclass(frozen=True, slots=True)
class Scenario:
    """The content of the topics ``planes`` and ``flights``."""

    planes: Mapping[str, Plane]
    """By tail number."""

    awaited: Mapping[str, int]
    """Late planes -> number of flights that wait for each."""

    records: Sequence[Flight | Broken]
    """Records of the topic ``flights``, in the order of sending."""

    missing: frozenset[str] = frozenset()
    """Planes that are sent when all flights have ended. Then the dead letters of all unknown planes are sent again. If
    there are none, nothing is sent again."""


def scenario(flights: Sequence[Flight], planes: Iterable[Plane], missing_maker: str | None = None) -> Scenario:
    """Choose the late planes, order the flights, and insert the broken records.

    A late plane is sent when all its flights have been seen in a retry tier. It must reach the handler before the first
    of them has its last attempt; otherwise the outcome would depend on the speed of the machine. So the flights of
    delayed planes come first, plane by plane: they have the same key, are adjacent in one partition, and have their
    first attempts close together, however slow the worker is and however often it dies. The policy then leaves 15
    seconds, which do not elapse while worker or scheduler are down.
    """
    known = {plane.tailnum: plane for plane in planes}
    missing = frozenset(tail for tail, plane in known.items() if plane.manufacturer == missing_maker)
    there = known.keys() - missing
    flown = sorted({tail for flight in flights if (tail := _needs(flight)) in there and tail is not None})
    late = frozenset(flown[::LATE_ONE_IN])
    waiting = [flight for flight in flights if _needs(flight) in late]
    waiting.sort(key=lambda flight: str(flight.tailnum))
    rest = [flight for flight in flights if _needs(flight) not in late]
    awaited = Counter(str(flight.tailnum) for flight in waiting)
    return Scenario(known, awaited, _mixed([*waiting, *rest]), missing)


def _needs(flight: Flight) -> str | None:
    """Tail number of the plane that a flight needs, ``None`` if it was cancelled or has none."""
    return None if flight.dep_time is None else flight.tailnum


def _mixed(flights: Sequence[Flight]) -> list[Flight | Broken]:
    """The flights, with ``BROKEN`` broken records evenly inserted."""
    count = min(BROKEN, len(flights))
    after = {(number + 1) * len(flights) // count - 1: number for number in range(count)}
    return list(
        chain.from_iterable(
            (flight, Broken(after[index], flight)) if index in after else (flight,)
            for index, flight in enumerate(flights)
        )
    )
