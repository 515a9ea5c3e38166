"""The scenario is derived from the data."""

from itertools import groupby

from examples.flights import data
from examples.flights.data import Flight
from examples.flights.scenario import BROKEN, LATE_ONE_IN, MISSING_MAKER, Broken, scenario

_FLIGHTS = data.flights(3)
_GIVEN = scenario(_FLIGHTS, data.planes())


def test_every_flight_and_every_broken_record_is_sent_once() -> None:
    """Nothing is left out or repeated."""
    flights = [record for record in _GIVEN.records if isinstance(record, Flight)]
    broken = [record.number for record in _GIVEN.records if isinstance(record, Broken)]
    assert sorted(map(repr, flights)) == sorted(map(repr, _FLIGHTS))
    assert broken == list(range(BROKEN))


def test_two_runs_send_the_same() -> None:
    """Choice and order depend on the data, not on the order of the planes."""
    assert scenario(_FLIGHTS, reversed(data.planes())) == _GIVEN


def test_one_plane_in_twenty_is_late() -> None:
    """Late planes are known planes that fly in the chosen days; all their flights that were not cancelled wait."""
    flying = {each.tailnum for each in _FLIGHTS if each.dep_time is not None and each.tailnum in _GIVEN.planes}
    assert len(_GIVEN.awaited) == -(-len(flying) // LATE_ONE_IN)
    for tail, count in _GIVEN.awaited.items():
        assert count == sum(each.tailnum == tail and each.dep_time is not None for each in _FLIGHTS) > 0


def test_missing_planes_are_not_late() -> None:
    """The planes of one manufacturer are missing, and other planes are late."""
    given = scenario(_FLIGHTS, data.planes(), MISSING_MAKER)
    assert {given.planes[tail].manufacturer for tail in given.missing} == {MISSING_MAKER}
    late = set(given.awaited)
    assert late
    assert not given.missing & late
    assert not _GIVEN.missing


def test_flights_of_late_planes_come_first_and_adjacent() -> None:
    """Only broken records are before or between the flights of a late plane."""
    flights = [record for record in _GIVEN.records if isinstance(record, Flight)]
    waiting = flights[: sum(_GIVEN.awaited.values())]
    assert all(each.tailnum in _GIVEN.awaited and each.dep_time is not None for each in waiting)
    runs = [(tail, len(list(run))) for tail, run in groupby(waiting, key=lambda each: each.tailnum)]
    assert runs == sorted(_GIVEN.awaited.items())


def test_the_other_flights_follow_day_by_day() -> None:
    """The rest is in the order of the calendar."""
    flights = [record for record in _GIVEN.records if isinstance(record, Flight)]
    days = [each.day for each in flights[sum(_GIVEN.awaited.values()) :]]
    assert days == sorted(days)


def test_few_flights_have_few_broken_records() -> None:
    """With fewer flights than broken records, one follows each flight."""
    few = scenario(_FLIGHTS[:4], data.planes())
    assert [isinstance(record, Broken) for record in few.records] == [False, True] * 4
