"""Values as text that a person edits, which becomes the same bytes again if nothing is changed.

Text and JSON are edited as the text that they are; JSON in one line gets a line for each item, and is written in one
line again. Avro is edited as JSON, see :mod:`serdes.avro_json`, and Protobuf as its own JSON; both are written with the
schema of the original.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any, Final, NoReturn

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.codec import Codec, JsonCodec, StringCodec
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError, NotIdenticalError
from kafka_redelivery.serdes.framing import decoded, id_and_start
from kafka_redelivery.topology.printable import printable_json

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s"\[\]{},:]+')
_INDENT: Final = "  "

STYLES: Final = ((",", ":"), (", ", ": "))
"""What stands after items and names: in compact JSON, and by default in Python's."""


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a document, which has to be JSON."""
    return _TOKEN.findall(text)


def one_line(tokens: list[str], style: tuple[str, str]) -> str:
    """Return a document in one line."""
    after = {",": style[0], ":": style[1]}
    return "".join(after.get(token, token) for token in tokens)


def style_of(text: str) -> tuple[str, str] | None:
    """Return in which of :data:`STYLES` a document is written in one line; ``None`` in another one."""
    tokens = tokens_of(text)
    return next((style for style in STYLES if one_line(tokens, style) == text), None)


def indented(text: str) -> str:
    """Return a document with a line for each item."""
    found: list[str] = []
    depth, previous = 0, ""
    for each in tokens_of(text):
        closes = each in {"]", "}"}
        depth -= closes
        if (closes and previous not in {"[", "{"}) or (previous in {"[", "{", ","} and not closes):
            found.append("\n" + _INDENT * depth)
        found.append(": " if each == ":" else each)
        depth += each in {"[", "{"}
        previous = each
    return "".join(found)


_REPAIRABLE: Final = {DecodeCode.NOT_JSON, DecodeCode.SCHEMA_MISMATCH, DecodeCode.TOO_DEEP}
"""Faults of a document, whose schema can be had: only what it is edited to has to be valid."""


@dataclass(frozen=True, slots=True)
class Editable:
    """A value as text."""

    text: str
    suffix: str
    """The suffix of a file with the text."""

    encode: Callable[[str], bytes]
    """Returns the bytes of an edited text. Raises ``EncodeError`` if it is not a value of the format."""


def editable(codec: Codec, data: bytes, header: bytes | None = None) -> Editable:
    """Return a value as text.

    Args:
        codec: that of the topic. What should be JSON and is not is edited as text; it has to be JSON afterwards.
        data: the bytes of the value.
        header: the header of its schema id, if there is one. What is edited keeps it.

    Raises:
        DecodeError: the value cannot be decoded, or is not text.
        NotIdenticalError: the text, unchanged, would not become these bytes again.
        SchemaSourceUnavailable: its schema cannot be looked up at present.
    """
    if isinstance(codec, AvroCodec):
        return _avro(codec, data, header)
    if codec.name == "protobuf":
        from kafka_redelivery.serdes.protobuf import ProtobufCodec  # noqa: PLC0415 - needs an extra

        assert isinstance(codec, ProtobufCodec)  # noqa: S101 - of this name
        return Editable(codec.text_of(data, header), ".json", lambda edited: codec.from_text(edited, data, header))
    if codec.name == "jsonschema":
        return _json_schema(codec, data, header)
    text: str = StringCodec().decode(data) or ""
    return _json(codec, text) if isinstance(codec, JsonCodec) else Editable(text, ".txt", _utf8)


def _utf8(text: str) -> bytes:
    return StringCodec().encode(text) or b""


def _json(codec: JsonCodec, text: str) -> Editable:
    def encode(edited: str) -> bytes:
        data = _utf8(edited)
        try:
            codec.decode(data)
        except DecodeError as error:
            raise EncodeError(error.codec, EncodeCode.NOT_JSON, error.reason) from None
        return data if style is None else one_line(tokens_of(edited), style).encode()

    style = None
    try:
        encode(text)
        style = style_of(text)
    except EncodeError:
        pass
    return Editable(text if style is None else indented(text), ".json", encode)


def _json_schema(codec: Codec, data: bytes, header: bytes | None) -> Editable:
    try:
        decoded(codec, data, header)
    except DecodeError as error:
        if error.code not in _REPAIRABLE:
            raise
    start = id_and_start(codec.name, data, header)[1]
    prefix, document = data[:start], data[start:]
    inner = _json(JsonCodec(), StringCodec().decode(document) or "")

    def encode(edited: str) -> bytes:
        changed = prefix + inner.encode(edited)
        try:
            decoded(codec, changed, header)
        except DecodeError as error:
            raise EncodeError(error.codec, EncodeCode.SCHEMA_MISMATCH, error.reason, error.schema_id) from None
        return changed

    return Editable(inner.text, inner.suffix, encode)


def _avro(codec: AvroCodec, data: bytes, header: bytes | None) -> Editable:
    written = codec.written(data, header)

    def encode(edited: str) -> bytes:
        try:
            found = json.loads(edited, parse_constant=_no_constant, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "nested too deep to read"
            raise EncodeError(codec.name, EncodeCode.NOT_JSON, reason) from None
        changed = written.from_json(found)
        try:
            codec.decode(changed, header)  # resolved into the reader's schema, as the worker does it
        except DecodeError as error:
            raise EncodeError(error.codec, EncodeCode.AVRO_MISMATCH, error.reason, error.schema_id) from None
        return changed

    value = written.as_json(data)
    again = written.from_json(value)
    if again != data:
        raise NotIdenticalError(codec.name, _difference(data, again))
    return Editable(printable_json(json.dumps(value, indent=2, ensure_ascii=False)), ".json", encode)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON; write "{name}"')


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r} is given twice")
    return found


def _difference(original: bytes, again: bytes) -> str:
    at = len(commonprefix([original, again]))  # noqa: RUF071 - of bytes, not of paths
    old, new = (data[at : at + 8].hex(" ") or "the end" for data in (original, again))
    return (
        f"{len(original)} bytes would become {len(again)}, and differ from byte {at} on: {old} would become {new}; its "
        "writer has encoded an array, a map or a number in another way"
    )
