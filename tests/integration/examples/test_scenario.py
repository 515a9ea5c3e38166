"""The scenario is derived from the data."""

from itertools import groupby

import pytest

from examples.flights import data
from examples.flights.data import Flight
from examples.flights.scenario import BROKEN, LATE_ONE_IN, MISSING_MAKER, Broken, Scenario, scenario


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    """The departures of three days."""
    return data.flights(3)


@pytest.fixture(scope="module")
def given(flights: list[Flight]) -> Scenario:
    """The scenario of three days."""
    return scenario(flights, data.planes())


def test_every_flight_and_every_broken_record_is_sent_once(flights: list[Flight], given: Scenario) -> None:
    """Nothing is left out or repeated."""
    sent = [record for record in given.records if isinstance(record, Flight)]
    broken = [record.number for record in given.records if isinstance(record, Broken)]
    assert sorted(map(repr, sent)) == sorted(map(repr, flights))
    assert broken == list(range(BROKEN))


def test_two_runs_send_the_same(flights: list[Flight], given: Scenario) -> None:
    """Choice and order depend on the data, not on the order of the planes."""
    assert scenario(flights, reversed(data.planes())) == given


def test_one_plane_in_twenty_is_late(flights: list[Flight], given: Scenario) -> None:
    """Late planes are known planes that fly in the chosen days; all their flights that were not cancelled wait."""
    flying = {each.tailnum for each in flights if each.dep_time is not None and each.tailnum in given.planes}
    assert len(given.awaited) == -(-len(flying) // LATE_ONE_IN)
    for tail, count in given.awaited.items():
        assert count == sum(each.tailnum == tail and each.dep_time is not None for each in flights) > 0


def test_missing_planes_are_not_late(flights: list[Flight], given: Scenario) -> None:
    """The planes of one manufacturer are missing, and other planes are late."""
    without = scenario(flights, data.planes(), MISSING_MAKER)
    assert {without.planes[tail].manufacturer for tail in without.missing} == {MISSING_MAKER}
    late = set(without.awaited)
    assert late
    assert not without.missing & late
    assert not given.missing


def test_flights_of_late_planes_come_first_and_adjacent(given: Scenario) -> None:
    """Only broken records are before or between the flights of a late plane."""
    sent = [record for record in given.records if isinstance(record, Flight)]
    waiting = sent[: sum(given.awaited.values())]
    assert all(each.tailnum in given.awaited and each.dep_time is not None for each in waiting)
    runs = [(tail, len(list(run))) for tail, run in groupby(waiting, key=lambda each: each.tailnum)]
    assert runs == sorted(given.awaited.items())


def test_the_other_flights_follow_day_by_day(given: Scenario) -> None:
    """The rest is in the order of the calendar."""
    sent = [record for record in given.records if isinstance(record, Flight)]
    days = [each.day for each in sent[sum(given.awaited.values()) :]]
    assert days == sorted(days)


def test_few_flights_have_few_broken_records(flights: list[Flight]) -> None:
    """With fewer flights than broken records, one follows each flight."""
    few = scenario(flights[:4], data.planes())
    assert [isinstance(record, Broken) for record in few.records] == [False, True] * 4
