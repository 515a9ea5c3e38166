"""The envelope of a dead letter: one record of a dead-letter topic as an Avro value, for archive and export.

The topic itself keeps the record byte for byte; the envelope is a copy of it that can be read without Kafka.
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

from serdes.avro_schema import AvroSchema, read_json, schema_of
from serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError

_FILE = "dead_letter.avsc"
_CODEC = "dead_letter"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from."""

    position: Position
    """Of the first delivery."""

    address: str
    """``_AMQ_ORIG_ADDRESS``: the source topic."""

    queue: str
    """``_AMQ_ORIG_QUEUE``: the consumer group that failed."""

    message_id: str
    """``_AMQ_ORIG_MESSAGE_ID``: ``topic-partition@offset`` of the first delivery."""


@dataclass(frozen=True, slots=True)
class Failure:
    """``dlqDeliveryFailureCause``: why a record was dead-lettered."""

    reason: str
    """Machine-readable code."""

    exception_class: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record of a dead-letter topic. Times are epoch milliseconds; None is what its headers do not say."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """All of them in their order, those the other fields were read from included."""

    position: Position
    """Of the dead letter."""

    dead_lettered_at_ms: int
    origin: Origin | None = None
    original_timestamp_ms: int | None = None
    delivery_count: int | None = None
    expiration_ms: int | None = None
    """Of the dead letter; None and 0 are both never, and are kept apart."""

    original_expiration_ms: int | None = None
    """Of the record, before it was dead-lettered."""

    actual_expiry_ms: int | None = None
    """When an expired record was found expired."""

    failure: Failure | None = None


@cache
def dead_letter_schema() -> AvroSchema:
    """Return the envelope's schema, as ``dead_letter.avsc`` beside this module has it."""
    return schema_of(read_json(resources.files(__package__).joinpath(_FILE).read_bytes(), _FILE), _FILE)


def as_avro(letter: DeadLetter) -> dict[str, Any]:
    """Return the letter as a value of :func:`dead_letter_schema`."""
    headers = [{"name": name, "value": value} for name, value in letter.headers]
    return {**asdict(letter), "headers": headers}


def from_avro(value: Mapping[str, Any]) -> DeadLetter:
    """Return the letter that a value of :func:`dead_letter_schema` describes; exactly what :func:`as_avro` was given.

    Raises:
        DecodeError: the value lacks a field or has one more.
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
        raise DecodeError(_CODEC, DecodeCode.AVRO_MISMATCH, f"no dead letter: {error}") from error


def write_dead_letters(file: IO[bytes], letters: Iterable[DeadLetter]) -> None:
    """Write an Avro object container file, which carries its schema and is compressed with deflate.

    Raises:
        EncodeError: a letter has a field of a type or a size the schema does not allow.
    """
    try:
        fastavro.writer(file, _parsed(), map(as_avro, letters), codec="deflate", validator=True)
    except (ValueError, TypeError, ValidationError) as error:
        raise EncodeError(_CODEC, EncodeCode.AVRO_MISMATCH, str(error)) from error


def read_dead_letters(file: IO[bytes]) -> Iterator[DeadLetter]:
    """Yield the letters of a file that :func:`write_dead_letters` made, in their order, also by an older version.

    The file is trusted to be one of ours: unlike the bytes of a record, it is not checked before it is read.

    Raises:
        DecodeError: it is none, or it is damaged.
    """
    values = _values(file)
    while True:
        try:
            value = next(values)
        except StopIteration:
            return
        except Exception as error:  # a damaged block raises whatever its decompression and its types do
            raise DecodeError(_CODEC, DecodeCode.AVRO_MISMATCH, f"{type(error).__name__}: {error}") from error
        yield from_avro(value)


def _values(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    yield from fastavro.reader(file, _parsed())  # type: ignore[misc]


@cache
def _parsed() -> Schema:
    return parse_schema(deepcopy(dead_letter_schema().definition))
