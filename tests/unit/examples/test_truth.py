"""The rules for expected outcomes, in their order."""

from dataclasses import replace

import pytest

from examples.flights.data import Flight
from examples.flights.scenario import Broken
from examples.flights.truth import Ending, Expected, expected, expected_of_all
from tests.unit.examples.flights import flight, world

_WORLD = world(late={"N2": 1})


@pytest.mark.parametrize(
    ("record", "end"),
    [
        (Broken(0, flight(1, None)), Expected(Ending.UNDECODABLE)),
        (flight(1, None, dep_time=None), Expected(Ending.REJECTED)),
        (flight(1, None), Expected(Ending.REJECTED)),
        (flight(1, "N404", dep_time=None), Expected(Ending.ACKED)),
        (flight(1, "N2", dep_time=None), Expected(Ending.ACKED)),
        (flight(1, "N404"), Expected(Ending.REDELIVERIES_EXCEEDED)),
        (flight(1, "N2", distance=10), Expected(Ending.RECOVERED, 1020)),
        (flight(1, "N1", distance=10), Expected(Ending.ACKED, 1010)),
    ],
)
def test_the_first_rule_that_fits_decides(record: Flight | Broken, end: Expected) -> None:
    """Undecodable before no tail number, before cancelled, before an unknown plane, before a late one."""
    assert expected(record, _WORLD) == end


def test_dead_letters_of_unknown_planes_are_sent_again() -> None:
    """If planes were missing: those that are known then recover, the others die again, and no other letter is sent."""
    given = replace(_WORLD, missing=frozenset({"N3"}))
    dead = Ending.REDELIVERIES_EXCEEDED
    assert expected(flight(1, "N3", distance=10), given) == Expected(dead, 1030, Ending.RECOVERED)
    assert expected(flight(1, "N404"), given) == Expected(dead, None, dead)
    assert expected(flight(1, "N3", dep_time=None), given) == Expected(Ending.ACKED)
    assert expected(flight(1, None), given).again is None


def test_flights_that_wait_in_their_places() -> None:
    """The first of a late plane fails; when the others are handled the plane is known."""
    flights = (flight(1, "N2"), flight(2, "N1"), flight(3, "N2"), flight(4, "N2", dep_time=None), flight(5, "N404"))
    given = world(*flights, late={"N2": 2})

    ends = [each.ending for each in expected_of_all(given, blocking=True)]

    assert ends == [Ending.RECOVERED, *[Ending.ACKED] * 3, Ending.REDELIVERIES_EXCEEDED]
    assert expected_of_all(given)[2] == expected(flights[2], given)
    assert expected_of_all(given, blocking=True)[2].seat_miles == expected(flights[2], given).seat_miles
