"""Decoded values as plain data for people, and as JSON for the archive and ``--where``; bytes as a hex dump."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from kafka_redelivery.serdes import objects

_DUMPED: Final = 512
"""Bytes of a hex dump, unless all are shown."""

_ROW: Final = 16


def plain(value: Any) -> Any:  # noqa: ANN401 - any decoded value
    """Return a decoded value as plain data for JSON.

    Bytes are ``{"base64": ...}``; times, durations, decimals and UUIDs are text, and so are infinities and NaN.
    """
    match value:
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bytes() | bytearray():
            return {"base64": base64.b64encode(value).decode()}
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case timedelta():
            return to_jsonable_python(value)  # ISO 8601, too
        case Decimal() | UUID():
            return str(value)
        case float() if value - value != 0:  # NaN or infinity
            return str(value)
        case _:
            return value


def as_json(value: object) -> str:
    """Return a decoded value as JSON.

    Times and durations become ISO 8601, bytes URL-safe base64, decimals and UUIDs text, NaN and infinities their names.
    """
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=_fallback).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        # The value has a lone surrogate, which JSON can only hold as an escape.
        return json.dumps(value, default=_other)


def _fallback(value: object) -> object:
    found = objects.plain(value)  # a Protobuf message
    return str(value) if found is value else found


def _other(value: Any) -> object:  # noqa: ANN401 - any type that a codec returns
    return base64.urlsafe_b64encode(value).decode() if isinstance(value, bytes) else _fallback(value)


def hex_dump(data: bytes, *, full: bool) -> Iterator[str]:
    """Yield lines with offset, bytes and ASCII; the first 512 bytes unless ``full``."""
    shown = data if full else data[:_DUMPED]
    for at in range(0, len(shown), _ROW):
        row = shown[at : at + _ROW]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)  # noqa: PLR2004 - ASCII
        yield f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  |{characters}|"
    if len(shown) < len(data):
        yield f"... {len(data) - len(shown)} more bytes (--full)"
