"""What a codec is, and the codecs that need no schema: raw bytes, text and JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn, Protocol

from serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError


class Codec(Protocol):
    """Turns the bytes of a key or a value into a Python value and back.

    ``None`` is a tombstone and passes through both ways. Codecs hold no state of a record and may be called from
    several threads at once.
    """

    @property
    def name(self) -> str:
        """The format's name in settings, errors and metrics."""
        ...

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - a decoded value has the type its writer gave it
        """Return the value of ``data``, or None for a tombstone.

        Raises:
            DecodeError: the bytes are no value of this codec, whatever they are; no other error speaks of them.
            SchemaSourceUnavailable: the bytes could not be judged, because their schema could not be had.
        """
        ...

    def encode(self, value: Any) -> bytes | None:  # noqa: ANN401 - as decode
        """Return the bytes of ``value``, or None (a tombstone) for None.

        Raises:
            EncodeError: the value cannot be written by this codec.
            SchemaSourceUnavailable: the write schema could not be had.
        """
        ...


class RawCodec:
    """Bytes as they are."""

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
        raise EncodeError(self.name, EncodeCode.WRONG_TYPE, f"needs bytes, got {type(value).__name__}")


class StringCodec:
    """Text in UTF-8."""

    name = "string"

    def decode(self, data: bytes | None) -> str | None:
        """Return the text of ``data``.

        Raises:
            DecodeError: it is not UTF-8.
        """
        return None if data is None else _text(self.name, data)

    def encode(self, value: object) -> bytes | None:
        """Return the UTF-8 of a text.

        Raises:
            EncodeError: the value is not a text, or has a lone surrogate.
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
_COMPACT = {"allow_nan": False, "separators": (",", ":")}
_WRITE = json.JSONEncoder(ensure_ascii=False, **_COMPACT).encode  # type: ignore[arg-type]
_WRITE_ESCAPED = json.JSONEncoder(ensure_ascii=True, **_COMPACT).encode  # type: ignore[arg-type]


class JsonCodec:
    """One JSON document (RFC 8259) in UTF-8, written without spaces.

    JSON's own ``null`` decodes to None but cannot be written: None is the tombstone.
    """

    name = "json"

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401 - JSON holds any of six types
        """Return the document as dict, list, str, int, float, bool or None.

        Raises:
            DecodeError: not UTF-8 (a byte order mark or UTF-16 included), not JSON, or nested too deep.
        """
        if data is None:
            return None
        text = _text(self.name, data)
        try:
            return _READ(text)
        except RecursionError as error:
            raise DecodeError(self.name, DecodeCode.TOO_DEEP, "nested too deep to read") from error
        except ValueError as error:
            # Also integers of more digits than the interpreter converts.
            raise DecodeError(self.name, DecodeCode.NOT_JSON, str(error)) from error

    def encode(self, value: object) -> bytes | None:
        """Return the document of ``value``.

        Raises:
            EncodeError: JSON has no form for it.
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
        # A lone surrogate can be read from JSON, so it must be possible to write it back: as an escape.
        return _WRITE_ESCAPED(value).encode()


def _text(codec: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(codec, DecodeCode.NOT_UTF8, str(error)) from error
