"""The demo's record formats: Avro in the registry wire format, with the schemas in ``schemas/``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from examples.flights.data import Flight, Plane
from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.codec import Codec

FLIGHTS: Final = "flights"
PLANES: Final = "planes"
SEAT_MILES: Final = "seat_miles"

HERE: Final = Path(__file__).parent
CONFIG: Final = HERE / "redelivery.yaml"

HEADER_BYTES: Final = 5
"""A zero byte and the schema id."""


def _codec(schema_id: int, name: str) -> Codec:
    schema = HERE / "schemas" / f"{name}.avsc"
    return build_codec(SerdeSettings(format="avro", schemas={schema_id: schema}, write_id=schema_id))


_FLIGHT: Final = _codec(1, "flight")
_PLANE: Final = _codec(2, "plane")
SEAT_MILES_CODEC: Final = _codec(3, "seat_miles")


def flight_record(flight: Flight) -> tuple[bytes | None, bytes]:
    """Key (the tail number; none if the flight has none) and value of a flight."""
    key = None if flight.tailnum is None else flight.tailnum.encode()
    return key, _FLIGHT.encode(flight._asdict()) or b""


def plane_record(plane: Plane) -> tuple[bytes, bytes]:
    """Key and value of a plane."""
    return plane.tailnum.encode(), _PLANE.encode(plane._asdict()) or b""


def seat_miles_of(value: bytes | None) -> dict[str, Any]:
    """The decoded value of a record of ``seat_miles``.

    Raises:
        DecodeError: the value is not a record of ``seat_miles``.
    """
    decoded: dict[str, Any] = SEAT_MILES_CODEC.decode(value)
    return decoded
