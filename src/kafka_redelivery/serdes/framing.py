"""The wire format of schema registries: a zero byte and four bytes of schema id before the value."""

from __future__ import annotations

import struct

from kafka_redelivery.serdes.errors import DecodeCode, DecodeError

MAGIC = 0
HEADER = struct.Struct(">BI")
_CHARS = 300


def schema_id_of(codec: str, data: bytes) -> int:
    """Return the schema id of a record.

    Args:
        codec: the name of the codec, for errors.
        data: the bytes of the record.

    Raises:
        DecodeError: it does not begin with a schema id.
    """
    if len(data) < HEADER.size or data[0] != MAGIC:
        if data and data[0] != MAGIC:
            raise DecodeError(codec, DecodeCode.BAD_MAGIC, f"starts with the byte {data[0]} instead of {MAGIC}")
        raise DecodeError(codec, DecodeCode.TRUNCATED, f"{len(data)} bytes, but the header has {HEADER.size}")
    schema_id: int = HEADER.unpack_from(data)[1]
    return schema_id


def cut(text: str) -> str:
    """Return a text that fits into a dead letter's cause, which cannot hold whole schemas or values."""
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 3]}..."


def short(error: Exception) -> str:
    """Return the text of an error, see :func:`cut`."""
    return cut(f"{type(error).__name__}: {error}")
