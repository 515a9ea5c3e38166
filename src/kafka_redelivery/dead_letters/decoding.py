"""Decodes dead letters with the codecs of their sources, as a worker does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.decoded_json import as_json
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, SerdeError
from kafka_redelivery.serdes.framing import HEADER, KEY_HEADER, VALUE_HEADER, decoded, header_in
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.topology.config.settings import WITH_SCHEMA, CodecSection

_LEVELS: Final = 200
"""How deep a value may be nested to be shown."""

_ASKED: Final = 100
"""How many schemas are asked for that are missing: bytes that are no value may name any."""


class SchemaLackingError(Exception):
    """The schema of a value cannot be had at present."""


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


class ValueTexts:
    """Makes text of the values of one source, whose values name their schema: the JSON of the decoded value.

    A schema that cannot be had is asked for once: a registry that does not answer takes seconds each time. After
    :meth:`again` it is asked for once more. Not thread-safe.
    """

    def __init__(self, section: CodecSection, base: Path) -> None:
        """Take the settings; ``base`` is the folder that paths of schemas are relative to. Nothing is opened yet."""
        self._section, self._base = section, base
        self._codec: Codec | None = None
        self._had: set[bytes] = set()
        self._lacking: dict[bytes, str] = {}
        self._away = ""

    def again(self) -> None:
        """Ask once more for schemas that could not be had."""
        self._lacking.clear()
        self._away = ""

    def __call__(self, value: bytes, header: bytes | None = None) -> str | None:
        """Return the JSON; ``None`` for what is no value of its schema.

        Args:
            value: the bytes.
            header: that of the schema id, if the record has it.

        Raises:
            SchemaLackingError: the schema cannot be had at present.
        """
        named = value[: HEADER.size] if header is None else header
        if named not in self._had:
            problem = self._lacking.get(named) or self._away
            if not problem and len(self._lacking) >= _ASKED:
                problem = f"{_ASKED} schemas are missing"
            if problem:
                raise SchemaLackingError(problem)
        try:
            if self._codec is None:
                self._codec = codecs(self._section, self._base)[1]
            found = as_json(decoded(self._codec, value, header))
        except DecodeError as error:
            if error.code is not DecodeCode.UNKNOWN_SCHEMA:
                return None
            problem = self._lacking[named] = str(error)
            raise SchemaLackingError(problem) from None
        except SerdeError as error:
            self._away = str(error)
            raise SchemaLackingError(self._away) from None
        if len(self._had) < _ASKED:
            self._had.add(named)
        return found


def texts_of(settings: LetterSource, base: Path) -> Mapping[str, ValueTexts]:
    """Return what makes text of the values of each source whose values name a schema."""
    return {
        source.topic: ValueTexts(CodecSection(value=source.value), base)
        for source in settings.sources
        if source.value.format in WITH_SCHEMA
    }


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
