"""Reads the year once."""

import pytest

from examples.flights import data
from examples.flights.data import Flight


@pytest.fixture(scope="session")
def year() -> list[Flight]:
    """All departures of 2013."""
    return data.flights(data.YEAR)
