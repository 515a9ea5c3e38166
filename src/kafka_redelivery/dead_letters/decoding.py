"""Decodes dead letters with the codecs of their sources, as a worker does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.decoded_json import as_json
from kafka_redelivery.serdes.errors import DecodeError, SerdeError
from kafka_redelivery.serdes.framing import KEY_HEADER, VALUE_HEADER, decoded, header_in
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.topology.config.settings import WITH_SCHEMA, CodecSection

_LEVELS: Final = 200
"""How deep a value may be nested to be shown."""


class Decoded(NamedTuple):
    """A key or a value as its codec returns it."""

    format: str
    """The name of the codec."""

    value: Any = None
    """Bytes if it could not be decoded."""

    problem: str = ""
    """Why it could not be decoded; empty if it could."""


class LetterCodecs:
    """The codecs of the sources of a configuration."""

    def __init__(self, settings: LetterSource, base: Path) -> None:
        """Take the settings; ``base`` is the folder that paths of schemas are relative to."""
        self._sources = {} if isinstance(settings, OtherSystem) else {each.topic: each for each in settings.sources}
        self._base = base

    def of(self, letter: Letter) -> tuple[Codec, Codec]:
        """Return the codecs of key and value; those of a source that is not configured are ``raw``.

        Raises:
            SerdeError: a schema cannot be read.
        """
        source = self._sources.get(letter.origin)
        return (RawCodec(), RawCodec()) if source is None else codecs(source, self._base)

    def decoded(self, letter: Letter, value: bytes | None) -> tuple[Decoded, Decoded]:
        """Return key and value of a letter, decoded as far as it is possible."""
        try:
            key_codec, value_codec = self.of(letter)
        except SerdeError as error:
            return Decoded("unknown", letter.key, str(error)), Decoded("unknown", value, str(error))
        headers = letter.headers.items()
        return (
            decode(key_codec, letter.key, header_in(key_codec, headers, KEY_HEADER)),
            decode(value_codec, value, header_in(value_codec, headers, VALUE_HEADER)),
        )


def texts_of(settings: LetterSource, base: Path) -> Mapping[str, Callable[[bytes, bytes | None], str | None]]:
    """Return what makes text of the values of each source whose values have a schema: the JSON of the decoded value.

    It takes the value and the header of its schema id. Of a value that cannot be decoded it makes ``None``.

    Raises:
        SerdeError: a schema of the configuration cannot be read.
    """
    return {
        source.topic: partial(_json_text, codecs(CodecSection(key=source.key, value=source.value), base)[1])
        for source in settings.sources
        if source.value.format in WITH_SCHEMA
    }


def _json_text(codec: Codec, data: bytes, header: bytes | None = None) -> str | None:
    try:
        return as_json(decoded(codec, data, header))
    except SerdeError:
        return None


def decode(codec: Codec, data: bytes | None, header: bytes | None = None) -> Decoded:
    """Return what a codec makes of bytes. Of ``raw``, JSON and text are decoded, too, because a person reads it."""
    try:
        value = _guessed(data) if isinstance(codec, RawCodec) else plain(decoded(codec, data, header))
    except SerdeError as error:
        return Decoded(codec.name, data, str(error))
    if _too_deep(value):
        return Decoded(codec.name, data, f"it is nested more than {_LEVELS} levels deep")
    return Decoded(codec.name, value)


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(_LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _guessed(data: bytes | None) -> Any:  # noqa: ANN401 - any JSON
    try:
        text = StringCodec().decode(data)
    except DecodeError:
        return data
    try:
        found = JsonCodec().decode(data)
    except DecodeError:
        return text
    return found if isinstance(found, dict | list) else text
