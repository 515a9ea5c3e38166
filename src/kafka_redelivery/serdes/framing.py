"""The wire format of schema registries: which schema a value was written with.

The id stands before the value: a zero byte and four bytes of id. Or it is in a header of the record: a byte 1 and the
16 bytes of the schema's GUID; such a header may also have the first form. If a record has a header, that alone counts,
as for the Confluent clients: a value that also has an id before it is not readable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeGuard
from uuid import UUID

from kafka_redelivery.serdes.codec import Codec, SchemaCodec
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError

MAGIC = 0
HEADER = struct.Struct(">BI")

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

SchemaId: TypeAlias = int | UUID
"""The id of a schema in its registry, or its GUID."""

_GUID_MAGIC: Final = 1
_GUID_END: Final = 17
_CHARS = 300


def schema_id_of(codec: str, data: bytes) -> int:
    """Return the schema id of a record.

    Raises:
        DecodeError: it does not begin with a schema id.
    """
    if len(data) < HEADER.size or data[0] != MAGIC:
        if data and data[0] != MAGIC:
            raise DecodeError(codec, DecodeCode.BAD_MAGIC, f"starts with the byte {data[0]} instead of {MAGIC}")
        raise DecodeError(codec, DecodeCode.TRUNCATED, f"{len(data)} bytes, but the header has {HEADER.size}")
    schema_id: int = HEADER.unpack_from(data)[1]
    return schema_id


def header_id_of(codec: str, header: bytes) -> tuple[SchemaId, int]:
    """Return the schema id in a header, and where it ends.

    Raises:
        DecodeError: the header has none.
    """
    if header[:1] == bytes([_GUID_MAGIC]) and len(header) >= _GUID_END:
        return UUID(bytes=header[1:_GUID_END]), _GUID_END
    if header[:1] == bytes([MAGIC]) and len(header) >= HEADER.size:
        return schema_id_of(codec, header), HEADER.size
    code = DecodeCode.BAD_MAGIC if header[:1] > bytes([_GUID_MAGIC]) else DecodeCode.TRUNCATED
    raise DecodeError(codec, code, f"the header of the schema id is {header[:_GUID_END].hex(' ') or 'empty'}")


def id_and_start(codec: str, data: bytes, header: bytes | None) -> tuple[SchemaId, int]:
    """Return the schema id of a record, and where its value starts in ``data``.

    Raises:
        DecodeError: neither the header nor the bytes have a schema id.
    """
    if header is None:
        return schema_id_of(codec, data), HEADER.size
    return header_id_of(codec, header)[0], 0


def header_for(schema_id: int, guid: UUID | None) -> bytes:
    """Return what the header of a schema id has; a registry that knows no GUIDs has none."""
    return HEADER.pack(MAGIC, schema_id) if guid is None else bytes([_GUID_MAGIC]) + guid.bytes


def names_schemas(codec: Codec) -> TypeGuard[SchemaCodec]:
    """Whether the records of a codec name their schema."""
    return hasattr(codec, "written_header")


def header_in(codec: Codec, headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the header of the schema id; ``None`` if there is none, or the codec has no schemas.

    Args:
        codec: that of the topic.
        headers: the headers of the record.
        name: :data:`KEY_HEADER` or :data:`VALUE_HEADER`.
    """
    return next((value for each, value in headers if each == name), None) if names_schemas(codec) else None


def decoded(codec: Codec, data: bytes | None, header: bytes | None) -> Any:  # noqa: ANN401 - as Codec.decode
    """Decode a key or a value; ``header``: that of its schema id, see :func:`header_in`."""
    return codec.decode(data, header) if header is not None and names_schemas(codec) else codec.decode(data)


def with_schema_ids(codecs: tuple[Codec, Codec], key: bytes | None, value: bytes | None, headers: Headers) -> Headers:
    """Return the headers of an encoded record, with the schema ids that its codecs write into headers.

    A header of the record that the handler has received, and sends on, would say that the id is not before the value.
    """
    for codec, data, name in ((codecs[0], key, KEY_HEADER), (codecs[1], value, VALUE_HEADER)):
        if data is None or not names_schemas(codec):
            continue
        written = codec.written_header
        if headers or written is not None:
            others = [each for each in headers if each[0] != name]
            headers = others if written is None else [*others, (name, written)]
    return headers


def cut(text: str) -> str:
    """Return a text that fits into a dead letter's cause, which cannot hold whole schemas or values."""
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 3]}..."


def short(error: Exception) -> str:
    """Return the text of an error, see :func:`cut`."""
    return cut(f"{type(error).__name__}: {error}")
