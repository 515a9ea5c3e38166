"""Records of ``flights`` that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from examples.flights.data import Flight
from examples.flights.scenario import Broken
from examples.flights.wire import HEADER_BYTES, flight_record

_UNKNOWN_ID: Final = (999).to_bytes(4)

_Maker = Callable[[int, bytes], bytes]

_MAKERS: Final[tuple[_Maker, ...]] = (
    lambda number, good: good[: HEADER_BYTES + number % (len(good) - HEADER_BYTES)],
    lambda number, good: bytes([1 + number % 255]) + good[1:],
    lambda _, good: good[:1] + _UNKNOWN_ID + good[HEADER_BYTES:],
    lambda number, _: _noise(number),
    lambda number, good: good[:HEADER_BYTES] + _noise(number),
    lambda _, good: good + good,
    lambda _number, _good: b"",
)
"""Truncated; wrong magic byte; unknown schema id; noise; noise after a valid header; two values in one; empty."""


def broken_record(broken: Broken) -> tuple[bytes | None, bytes]:
    """Key and value of a broken record. Every eighth has a valid value and a key that is not text."""
    key, good = flight_record(broken.flight)
    kind = broken.number % (len(_MAKERS) + 1)
    if kind == len(_MAKERS):
        return b"\xff" + (key or b""), good
    return key, _MAKERS[kind](broken.number, good)


def _noise(number: int) -> bytes:
    return sha256(b"noise %d" % number).digest()


def record_of(record: Flight | Broken) -> tuple[bytes | None, bytes]:
    """Key and value of a record for ``flights``."""
    return broken_record(record) if isinstance(record, Broken) else flight_record(record)
