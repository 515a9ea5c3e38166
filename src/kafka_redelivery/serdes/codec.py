"""The codec protocol, and the codecs without a schema: raw bytes, text and JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn, Protocol

from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError
from kafka_redelivery.serdes.objects import json_default


class Codec(Protocol):
    """Turns the bytes of a key or a value into a Python value and back.

    ``None`` is a tombstone and is passed through in both directions. Codecs keep no state of a record and are
    thread-safe.
    """

    @property
    def name(self) -> str:
        """The name of the format in settings, errors and metrics."""
        ...

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - a decoded value has the type its writer gave it
        """Return the value of ``data``, or None for a tombstone.

        Raises:
            DecodeError: the codec cannot decode the bytes. No other error is raised because of the bytes.
            SchemaSourceUnavailable: the schema of the bytes cannot be looked up at present.
        """
        ...

    def encode(self, value: Any) -> bytes | None:  # noqa: ANN401 - as decode
        """Return the bytes of ``value``, or None (a tombstone) for None.

        Raises:
            EncodeError: the codec cannot encode the value.
            SchemaSourceUnavailable: the write schema cannot be looked up at present.
        """
        ...


class SchemaCodec(Codec, Protocol):
    """A codec whose records name their schema, before the value or in a header."""

    @property
    def written_header(self) -> bytes | None:
        """The header that belongs to what was encoded; None: the schema id is in the bytes."""
        ...

    def decode(self, data: bytes | None, header: bytes | None = None, /) -> Any:  # noqa: ANN401 - as Codec
        """Return the value of ``data``, as :meth:`Codec.decode`. ``header``: that of the schema id, if there is one."""
        ...


class RawCodec:
    """Codec that returns bytes unchanged."""

    name = "raw"

    def decode(self, data: bytes | None) -> bytes | None:
        """Return ``data``; never fails."""
        return data

    def encode(self, value: object) -> bytes | None:
        """Return the bytes of a bytes-like value.

        Raises:
            EncodeError: the value is not bytes.
        """
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise EncodeError(
            self.name,
            EncodeCode.WRONG_TYPE,
            f"needs bytes, got {type(value).__name__}; choose a format such as json (in HandlerKit value=JsonCodec())",
        )


class StringCodec:
    """Codec for text in UTF-8."""

    name = "string"

    def decode(self, data: bytes | None) -> str | None:
        """Return the text of ``data``.

        Raises:
            DecodeError: it is not UTF-8.
        """
        return None if data is None else _text(self.name, data)

    def encode(self, value: object) -> bytes | None:
        """Return the text encoded in UTF-8.

        Raises:
            EncodeError: the value is not a ``str``, or has a lone surrogate.
        """
        if value is None:
            return None
        if not isinstance(value, str):
            raise EncodeError(self.name, EncodeCode.WRONG_TYPE, f"needs str, got {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(self.name, EncodeCode.NOT_UTF8, str(error)) from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_READ = json.JSONDecoder(parse_constant=_no_constant).decode
_COMPACT = {"allow_nan": False, "separators": (",", ":"), "default": json_default}
_WRITE = json.JSONEncoder(ensure_ascii=False, **_COMPACT).encode  # type: ignore[arg-type]
_WRITE_ESCAPED = json.JSONEncoder(ensure_ascii=True, **_COMPACT).encode  # type: ignore[arg-type]


class JsonCodec:
    """Codec for JSON documents (RFC 8259) in UTF-8, written without spaces.

    The JSON value ``null`` decodes to None but cannot be encoded, because None is the tombstone. Dataclasses, pydantic
    models and msgspec structs are written as objects; dates, times, durations, decimals and UUIDs as text; a member of
    an enum as its value.
    """

    name = "json"

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - JSON holds any of six types
        """Return the document as dict, list, str, int, float, bool or None.

        Raises:
            DecodeError: the bytes are not UTF-8 (UTF-16 and a byte order mark are not), not JSON, or nested too deep.
        """
        if data is None:
            return None
        text = _text(self.name, data)
        try:
            return _READ(text)
        except RecursionError as error:
            raise DecodeError(self.name, DecodeCode.TOO_DEEP, "nested too deep to read") from error
        except ValueError as error:
            # Includes integers with more digits than the interpreter converts.
            raise DecodeError(self.name, DecodeCode.NOT_JSON, str(error)) from error

    def encode(self, value: object) -> bytes | None:
        """Return the document of ``value``.

        Raises:
            EncodeError: JSON cannot represent the value.
        """
        if value is None:
            return None
        try:
            return _utf8(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise EncodeError(self.name, EncodeCode.NOT_JSON, str(error)) from error


def _utf8(value: object) -> bytes:
    try:
        return _WRITE(value).encode()
    except UnicodeEncodeError:
        # JSON can contain a lone surrogate as an escape, so it is written back as an escape.
        return _WRITE_ESCAPED(value).encode()


def _text(codec: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(codec, DecodeCode.NOT_UTF8, str(error)) from error
