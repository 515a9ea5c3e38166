"""Errors of codecs and schemas. Their class tells a bad record from schemas that are unavailable."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from enum import StrEnum
from typing import ClassVar, Final, Generic, TypeVar
from uuid import UUID

from kafka_redelivery.topology import exit_codes


class DecodeCode(StrEnum):
    """Why bytes cannot be decoded; part of a dead letter's cause, so a value never changes its meaning."""

    NOT_UTF8 = "not_utf8"
    """The text is not UTF-8."""

    NOT_JSON = "not_json"
    """The text is not one JSON document; ``NaN`` and ``Infinity`` are not JSON either."""

    BAD_MAGIC = "bad_magic"
    """The first byte is not the 0 of the registry wire format."""

    TRUNCATED = "truncated"
    """The bytes end before the value does."""

    TRAILING_BYTES = "trailing_bytes"
    """There are bytes after the end of the value."""

    UNKNOWN_SCHEMA = "unknown_schema"
    """There is no schema with the record's id."""

    BAD_SCHEMA = "bad_schema"
    """The schema with the record's id cannot be used."""

    AVRO_MISMATCH = "avro_mismatch"
    """The bytes are not a value of the writer schema, or the value does not fit the reader schema."""

    SCHEMA_MISMATCH = "schema_mismatch"
    """The bytes are not a message, or not a document, of their schema in Protobuf or JSON Schema."""

    TOO_DEEP = "too_deep"
    """The value is nested deeper than this package decodes."""

    TOO_MANY_ITEMS = "too_many_items"
    """An array declares more items without bytes than this package creates."""


class EncodeCode(StrEnum):
    """Why a value cannot be encoded."""

    WRONG_TYPE = "wrong_type"
    """The codec does not encode values of this type."""

    NOT_UTF8 = "not_utf8"
    """The text has a lone surrogate, which UTF-8 cannot represent."""

    NOT_JSON = "not_json"
    """JSON cannot represent the value: another type, a cycle, ``NaN`` or infinity."""

    AVRO_MISMATCH = "avro_mismatch"
    """The value does not fit the write schema."""

    SCHEMA_MISMATCH = "schema_mismatch"
    """The value does not fit the write schema in Protobuf or JSON Schema."""

    UNKNOWN_SCHEMA = "unknown_schema"
    """The source has no such write schema."""

    BAD_SCHEMA = "bad_schema"
    """The write schema cannot be used."""

    NO_WRITE_SCHEMA = "no_write_schema"
    """The codec is configured to decode only."""


class SerdeError(Exception):
    """Base class of all errors of this package."""

    exit_code: ClassVar[int] = exit_codes.CONFIGURATION


_Code = TypeVar("_Code", DecodeCode, EncodeCode)


class _CodecError(SerdeError, Generic[_Code]):
    def __init__(self, codec: str, code: _Code, reason: str, schema_id: int | UUID | None = None) -> None:
        # All arguments are passed on, so that the error can be pickled between processes.
        super().__init__(codec, code, reason, schema_id)
        self.codec = codec
        self.code: _Code = code
        self.reason = reason
        self.schema_id = schema_id

    def __str__(self) -> str:
        schema = "" if self.schema_id is None else f" (schema id {self.schema_id})"
        return f"{self.codec} {self.code}{schema}: {self.reason}"


class DecodeError(_CodecError[DecodeCode]):
    """The codec cannot decode the bytes, now or on any later attempt.

    Raised by ``Codec.decode``. The worker dead-letters the record with its bytes unchanged.
    """


class EncodeError(_CodecError[EncodeCode]):
    """The codec cannot encode the value. Raised by ``Codec.encode``; the error is in the handler."""


class SchemaSourceUnavailable(SerdeError):  # noqa: N818 - a state of the source, not an error of the record
    """The schema source is unreachable, refuses the credentials or returns an invalid answer.

    The record may be valid. Raised by ``decode`` and ``encode``. Its partition waits and tries the record again; no
    delivery is counted.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source = source
        self.reason = reason

    def __str__(self) -> str:
        return f"schema source {self.source} is unavailable: {self.reason}"


may_wait: Final[ContextVar[bool]] = ContextVar("may_wait", default=True)
"""Whether a look-up may wait for an answer of the network. In an event loop it may not: all its calls would wait."""


class LookUpWaits(SerdeError):  # noqa: N818 - a state of the look-up
    """A look-up would wait where it may not (:data:`may_wait`): another thread has to ``ask`` before the next try."""

    def __init__(self, source: str, wanted: str, ask: Callable[[], object]) -> None:
        super().__init__(source, wanted)
        self.ask = ask

    def __str__(self) -> str:
        return f"{self.args[0]} is not yet asked for {self.args[1]}"


class NotIdenticalError(SerdeError):
    """A value would not become the same bytes again. It cannot be edited, because more than the edit would change."""

    exit_code = exit_codes.FAILED

    def __init__(self, codec: str, reason: str) -> None:
        super().__init__(codec, reason)
        self.codec = codec
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.codec}: {self.reason}"


class UnknownSchemaError(SerdeError):
    """The source has no such schema. Raised by schema sources; codecs raise their own error from it."""

    def __init__(self, source: str, wanted: str) -> None:
        super().__init__(source, wanted)
        self.source = source
        self.wanted = wanted

    def __str__(self) -> str:
        return f"{self.source} has no {self.wanted}"


class SchemaError(SerdeError):
    """A schema cannot be used: such as one that names a type that no schema defines.

    Raised at start, when local schemas are loaded. Fix the schema at ``location``, a file or an id.
    """

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(location, reason)
        self.location = location
        self.reason = reason

    def __str__(self) -> str:
        return f"schema {self.location}: {self.reason}"


class SerdeSettingsError(SerdeError):
    """Settings contradict each other. ``field`` is the faulty setting, and ``fix`` what to write instead."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(field, problem, fix)
        self.field = field
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}; {self.fix}"
