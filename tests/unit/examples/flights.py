"""Flights, planes and a small scenario for the tests of the demo."""

from __future__ import annotations

from examples.flights.data import Flight, Plane
from examples.flights.layout import Layout
from examples.flights.scenario import Scenario

LAYOUT = Layout("g", ("g.retry.1s", "g.retry.2s"), "g.ready.flights", "DLQ.flights", "g.journal")


def flight(number: int, tailnum: str | None = "N1", *, dep_time: int | None = 517, distance: int = 1400) -> Flight:
    """Flight ``number`` on the first of January."""
    return Flight(
        2013, 1, 1, dep_time, 515, None, None, 819, None, "UA", number, tailnum, "EWR", "IAH", None, distance, 5, 15,
        "2013-01-01T10:00:00Z",
    )  # fmt: skip


def plane(tailnum: str, seats: int = 100) -> Plane:
    """A plane with ``seats`` seats."""
    return Plane(tailnum, 2004, "Fixed wing multi engine", "BOEING", "737-824", 2, seats, None, "Turbo-fan")


def world(*flights: Flight, late: dict[str, int] | None = None) -> Scenario:
    """These flights, in this order; N1 to N9 are known planes with 101 to 109 seats."""
    planes = {f"N{number}": plane(f"N{number}", 100 + number) for number in range(1, 10)}
    return Scenario(planes, late or {}, flights)
