"""Values as text that a person edits, which becomes the same bytes again if nothing is changed.

Text and JSON are edited as the text that they are; JSON in one line gets a line for each item, and is written in one
line again. Avro is edited as JSON, see :mod:`serdes.avro_json`, and written with the schema of the original.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, Protocol

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.codec import Codec, JsonCodec, StringCodec
from kafka_redelivery.serdes.errors import DecodeError, EncodeCode, EncodeError, NotIdenticalError
from kafka_redelivery.serdes.json_text import indented, one_line, style_of, tokens_of
from kafka_redelivery.topology.printable import printable_json

_SHOWN: Final = 8
"""Bytes of either value that an error shows."""


class Editable(Protocol):
    """A value as text."""

    text: str
    suffix: str
    """The suffix of a file with the text."""

    def encode(self, text: str) -> bytes:
        """Return the bytes of an edited text.

        Raises:
            EncodeError: it is not a value of the format.
        """
        ...


def editable(codec: Codec, data: bytes) -> Editable:
    """Return a value as text.

    Args:
        codec: that of the topic. What should be JSON and is not is edited as text; it has to be JSON afterwards.
        data: the bytes of the value.

    Raises:
        DecodeError: the value cannot be decoded, or is not text.
        NotIdenticalError: the text, unchanged, would not become these bytes again.
        SchemaSourceUnavailable: its schema cannot be looked up at present.
    """
    if isinstance(codec, AvroCodec):
        return _Avro(codec, data)
    text: str = StringCodec().decode(data) or ""
    return _Json(text) if isinstance(codec, JsonCodec) else _Text(text)


class _Text:
    suffix = ".txt"

    def __init__(self, text: str) -> None:
        self.text = text

    def encode(self, text: str) -> bytes:
        return StringCodec().encode(text) or b""


class _Json:
    suffix = ".json"

    def __init__(self, text: str) -> None:
        self._style = style_of(text) if _is_json(text) else None
        self.text = text if self._style is None else indented(text)

    def encode(self, text: str) -> bytes:
        data = StringCodec().encode(text) or b""
        try:
            JsonCodec().decode(data)
        except DecodeError as error:
            raise EncodeError(error.codec, EncodeCode.NOT_JSON, error.reason) from None
        return data if self._style is None else one_line(tokens_of(text), self._style).encode()


def _is_json(text: str) -> bool:
    try:
        JsonCodec().decode(text.encode())
    except DecodeError:
        return False
    return True


class _Avro:
    suffix = ".json"

    def __init__(self, codec: AvroCodec, data: bytes) -> None:
        self._codec, self._written = codec, codec.written(data)
        value = self._written.as_json(data)
        self.text = printable_json(json.dumps(value, indent=2, ensure_ascii=False))
        again = self._written.from_json(value)
        if again != data:
            raise NotIdenticalError(codec.name, _difference(data, again))

    def encode(self, text: str) -> bytes:
        try:
            value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
        except RecursionError:
            raise EncodeError(self._codec.name, EncodeCode.NOT_JSON, "nested too deep to read") from None
        except ValueError as error:
            raise EncodeError(self._codec.name, EncodeCode.NOT_JSON, str(error)) from None
        data = self._written.from_json(value)
        try:
            self._codec.decode(data)  # resolved into the reader's schema, as the worker does it
        except DecodeError as error:
            raise EncodeError(error.codec, EncodeCode.AVRO_MISMATCH, error.reason, error.schema_id) from None
        return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON; write "{name}"')


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def _difference(original: bytes, again: bytes) -> str:
    at = next((n for n, (old, new) in enumerate(zip(original, again, strict=False)) if old != new), None)
    at = min(len(original), len(again)) if at is None else at
    old, new = (data[at : at + _SHOWN].hex(" ") or "the end" for data in (original, again))
    return (
        f"{len(original)} bytes would become {len(again)}, and differ from byte {at} on: {old} would become {new}; its "
        "writer has encoded an array, a map or a number in another way"
    )
