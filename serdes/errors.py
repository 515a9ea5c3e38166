"""What this package raises. Whether a record is bad or its schemas are out of reach is a class, never a text."""

from __future__ import annotations

from enum import StrEnum


class DecodeCode(StrEnum):
    """Why bytes could not be read: part of the cause a dead letter carries, so a value never changes its meaning."""

    NOT_UTF8 = "not_utf8"
    """Text that is not UTF-8."""

    NOT_JSON = "not_json"
    """Text that is not one JSON document, ``NaN`` and ``Infinity`` included."""

    BAD_MAGIC = "bad_magic"
    """The first byte is not the 0 of the registry wire format."""

    TRUNCATED = "truncated"
    """The bytes end before the value does."""

    TRAILING_BYTES = "trailing_bytes"
    """Bytes are left after the value."""

    UNKNOWN_SCHEMA = "unknown_schema"
    """Nobody knows a schema under the record's id."""

    BAD_SCHEMA = "bad_schema"
    """The schema under the record's id is not a usable Avro schema."""

    AVRO_MISMATCH = "avro_mismatch"
    """The bytes are not a value of the writer's schema, or the value does not fit the reader's."""

    TOO_DEEP = "too_deep"
    """Nested deeper than this package reads."""

    TOO_MANY_ITEMS = "too_many_items"
    """An array of items without bytes claims more of them than this package makes."""


class EncodeCode(StrEnum):
    """Why a value could not be written."""

    WRONG_TYPE = "wrong_type"
    """The value is of a type the codec does not write."""

    NOT_UTF8 = "not_utf8"
    """Text with a lone surrogate, which UTF-8 cannot hold."""

    NOT_JSON = "not_json"
    """A value JSON has no form for: a foreign type, a cycle, ``NaN`` or infinity."""

    AVRO_MISMATCH = "avro_mismatch"
    """The value does not fit the write schema."""

    UNKNOWN_SCHEMA = "unknown_schema"
    """Nobody knows the write schema."""

    BAD_SCHEMA = "bad_schema"
    """The write schema is not a usable Avro schema."""

    NO_WRITE_SCHEMA = "no_write_schema"
    """The codec was built to read only."""


class SerdeError(Exception):
    """Root of everything this package raises."""


class DecodeError(SerdeError):
    """These bytes are no value of the codec, today and on every later attempt.

    Raised by ``Codec.decode``; the worker treats the record as poison and dead-letters its bytes unchanged.
    """

    def __init__(self, codec: str, code: DecodeCode, reason: str, schema_id: int | None = None) -> None:
        # All arguments go to the root, so that the error survives pickling between processes.
        super().__init__(codec, code, reason, schema_id)
        self.codec = codec
        self.code = code
        self.reason = reason
        self.schema_id = schema_id

    def __str__(self) -> str:
        return _coded(self.codec, self.code, self.reason, self.schema_id)


class EncodeError(SerdeError):
    """The value cannot be written by this codec. Raised by ``Codec.encode``; the fault is the handler's."""

    def __init__(self, codec: str, code: EncodeCode, reason: str, schema_id: int | None = None) -> None:
        super().__init__(codec, code, reason, schema_id)
        self.codec = codec
        self.code = code
        self.reason = reason
        self.schema_id = schema_id

    def __str__(self) -> str:
        return _coded(self.codec, self.code, self.reason, self.schema_id)


class SchemaSourceUnavailable(SerdeError):  # noqa: N818 - a state of the source, not an error of the record
    """The schema source could not answer: out of reach, refused the credentials, or answered nonsense.

    Says nothing about the record. Raised by ``decode`` and ``encode``; the worker retries or halts, and never
    treats the record as poison.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source = source
        self.reason = reason

    def __str__(self) -> str:
        return f"schema source {self.source} is unavailable: {self.reason}"


class UnknownSchemaError(SerdeError):
    """The source answered, and it has no such schema. Raised by schema sources; codecs turn it into their own error."""

    def __init__(self, source: str, wanted: str) -> None:
        super().__init__(source, wanted)
        self.source = source
        self.wanted = wanted

    def __str__(self) -> str:
        return f"{self.source} has no {self.wanted}"


class SchemaError(SerdeError):
    """A schema definition cannot be used: no JSON, no Avro, or a named type that is defined nowhere.

    Raised when local schemas are loaded, that is at start; ``place`` is the file or the id to mend.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        return f"schema {self.place}: {self.reason}"


class SerdeSettingsError(SerdeError):
    """Settings that do not go together. ``field`` is the setting at fault, ``mend`` what to write instead."""

    def __init__(self, field: str, problem: str, mend: str) -> None:
        super().__init__(field, problem, mend)
        self.field = field
        self.problem = problem
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}; {self.mend}"


def _coded(codec: str, code: str, reason: str, schema_id: int | None) -> str:
    schema = "" if schema_id is None else f" (schema id {schema_id})"
    return f"{codec} {code}{schema}: {reason}"
