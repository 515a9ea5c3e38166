"""The envelope of a dead letter: one record of a dead-letter topic as an Avro value, for archive and export.

The dead-letter topic keeps the record itself. The envelope is a copy that can be read without Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import IO, Any

import fastavro
from fastavro.schema import parse_schema
from fastavro.types import Schema
from fastavro.validation import ValidationError

from kafka_redelivery.serdes.avro_schema import AvroSchema, read_json, schema_of
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError

_FILE = "dead_letter.avsc"
_CODEC = "dead_letter"


@dataclass(frozen=True, slots=True)
class Position:
    """A topic partition and an offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The source record of a dead letter."""

    position: Position
    """The position of the source record."""

    address: str
    """``_AMQ_ORIG_ADDRESS``: the source topic."""

    queue: str
    """``_AMQ_ORIG_QUEUE``: the consumer group whose handler failed."""

    message_id: str
    """``_AMQ_ORIG_MESSAGE_ID``: ``topic-partition@offset`` of the source record."""


@dataclass(frozen=True, slots=True)
class Failure:
    """``dlqDeliveryFailureCause``: why a record was dead-lettered."""

    reason: str
    """The reason code."""

    exception_class: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record of a dead-letter topic. Times are in epoch ms; None means that the headers do not have the value."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """All headers in their order, including those that the other fields are read from."""

    position: Position
    """The position of the dead letter."""

    dead_lettered_at_ms: int
    origin: Origin | None = None
    original_timestamp_ms: int | None = None
    delivery_count: int | None = None
    expiration_ms: int | None = None
    """The expiration of the dead letter; None (no header) and 0 both mean never."""

    original_expiration_ms: int | None = None
    """The expiration of the record before it was dead-lettered."""

    actual_expiry_ms: int | None = None
    """The time at which an expired record was found to be expired."""

    failure: Failure | None = None


@cache
def dead_letter_schema() -> AvroSchema:
    """Return the schema of the envelope, from ``dead_letter.avsc`` in this package."""
    return schema_of(read_json(resources.files(__package__).joinpath(_FILE).read_bytes(), _FILE), _FILE)


def as_avro(letter: DeadLetter) -> dict[str, Any]:
    """Return the dead letter as a value of :func:`dead_letter_schema`."""
    headers = [{"name": name, "value": value} for name, value in letter.headers]
    return {**asdict(letter), "headers": headers}


def from_avro(value: Mapping[str, Any]) -> DeadLetter:
    """Return the dead letter of a value of :func:`dead_letter_schema`; the inverse of :func:`as_avro`.

    Raises:
        DecodeError: a field is missing, or the value has an unknown one.
    """
    try:
        origin, failure = value["origin"], value["failure"]
        return DeadLetter(
            **{
                **value,
                "headers": tuple((header["name"], header["value"]) for header in value["headers"]),
                "position": Position(**value["position"]),
                "origin": None if origin is None else Origin(**{**origin, "position": Position(**origin["position"])}),
                "failure": None if failure is None else Failure(**failure),
            }
        )
    except (KeyError, TypeError) as error:
        raise DecodeError(_CODEC, DecodeCode.AVRO_MISMATCH, f"not a dead letter: {error}") from error


def write_dead_letters(file: IO[bytes], letters: Iterable[DeadLetter]) -> None:
    """Write dead letters as an Avro object container file, with its schema and compressed with deflate.

    Raises:
        EncodeError: a field of a dead letter has a type or a size that the schema does not allow.
    """
    try:
        fastavro.writer(file, _parsed(), map(as_avro, letters), codec="deflate", validator=True)
    except (ValueError, TypeError, ValidationError) as error:
        raise EncodeError(_CODEC, EncodeCode.AVRO_MISMATCH, str(error)) from error


def read_dead_letters(file: IO[bytes]) -> Iterator[DeadLetter]:
    """Yield the dead letters of a file of :func:`write_dead_letters`, in their order; older versions are supported.

    The file is trusted: unlike the bytes of a record, its contents are not checked before they are decoded.

    Raises:
        DecodeError: the file is not an archive of dead letters, or is damaged.
    """
    values = _values(file)
    while True:
        try:
            value = next(values)
        except StopIteration:
            return
        except Exception as error:  # a damaged block raises any error of decompression or of a type
            raise DecodeError(_CODEC, DecodeCode.AVRO_MISMATCH, f"{type(error).__name__}: {error}") from error
        yield from_avro(value)


def _values(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    yield from fastavro.reader(file, _parsed())  # type: ignore[misc]


@cache
def _parsed() -> Schema:
    return parse_schema(deepcopy(dead_letter_schema().definition))
