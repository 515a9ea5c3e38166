"""Decodes dead letters with the codecs of their sources, as a worker does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, SerdeError
from kafka_redelivery.serdes.framing import KEY_HEADER, VALUE_HEADER, SchemaId, decoded, header_in, id_and_start
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.serdes.plain import as_json
from kafka_redelivery.topology.config.settings import WITH_SCHEMA, CodecSection

_LEVELS: Final = 200
"""How deep a value may be nested to be shown."""

_ASKED: Final = 100
"""How many schemas are asked for in a round that are missing: bytes that are no value may name any."""

_RESTING: Final = 10_000
"""How many of them are remembered from earlier rounds."""

_AWAY: Final = 3
"""After so many requests in succession without an answer, no more are sent in a round."""


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
    """The codecs of the sources of a configuration, each made once: it reads files, and may ask a registry."""

    def __init__(self, settings: LetterSource, base: Path) -> None:
        """Take the settings; ``base`` is the folder that paths of schemas are relative to."""
        self._sources = {} if isinstance(settings, OtherSystem) else {each.topic: each for each in settings.sources}
        self._base = base
        self._made: dict[str, tuple[Codec, Codec]] = {}

    def of(self, letter: Letter) -> tuple[Codec, Codec]:
        """Return the codecs of key and value; those of a source that is not configured are ``raw``.

        Raises:
            SerdeError: a schema cannot be read.
        """
        source = self._sources.get(letter.origin)
        if source is None:
            return RawCodec(), RawCodec()
        if source.topic not in self._made:
            self._made[source.topic] = codecs(source, self._base)
        return self._made[source.topic]

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

    A schema that cannot be had is asked for once in a round, because a registry that does not answer takes seconds each
    time. :meth:`again` begins another round. If a round could not ask for all, the next ones ask for the others first.
    Not thread-safe.
    """

    def __init__(self, section: CodecSection, base: Path) -> None:
        """Take the settings; ``base`` is the folder that paths of schemas are relative to. Nothing is opened yet."""
        self._section, self._base = section, base
        self._codec: Codec | None = None
        self._had: set[SchemaId] = set()
        self._lacking: dict[SchemaId, str] = {}
        self._resting: set[SchemaId] = set()
        """Those that earlier rounds have asked for, until a round has asked for all others."""

        self._unanswered = 0
        self._away = ""

    def again(self) -> None:
        """Begin another round: ask once more for schemas that could not be had."""
        some_left = bool(self._away) or len(self._lacking) >= _ASKED
        if some_left and len(self._resting) < _RESTING:
            self._resting.update(self._lacking)
        else:
            self._resting.clear()
        self._lacking.clear()
        self._unanswered, self._away = 0, ""

    def __call__(self, value: bytes, header: bytes | None = None) -> str | None:
        """Return the JSON; ``None`` for what is no value of its schema.

        Args:
            value: the bytes.
            header: that of the schema id, if the record has it.

        Raises:
            SchemaLackingError: the schema cannot be had at present.
        """
        try:
            wanted, _ = id_and_start(self._section.value.format, value, header)
        except DecodeError:
            return None
        if wanted not in self._had and (problem := self._not_asked(wanted)):
            raise SchemaLackingError(problem)
        try:
            if self._codec is None:
                self._codec = codecs(self._section, self._base)[1]
        except SerdeError as error:
            self._away = str(error)
            raise SchemaLackingError(self._away) from None
        try:
            found = as_json(decoded(self._codec, value, header))
        except DecodeError as error:
            if error.code is DecodeCode.UNKNOWN_SCHEMA:
                self._unanswered = 0
                raise self._noted(wanted, error) from None
            found = None
        except SerdeError as error:
            self._unanswered += 1
            if self._unanswered >= _AWAY:
                self._away = str(error)
            raise self._noted(wanted, error) from None
        if wanted not in self._had:
            self._unanswered = 0
            self._had.add(wanted)
        return found

    def _not_asked(self, wanted: SchemaId) -> str:
        """Return why a schema is not asked for; empty if it is."""
        if wanted in self._lacking:
            return self._lacking[wanted]
        if wanted in self._resting:
            return f"the schema with id {wanted} could not be had, and is asked for again after others"
        return self._away or (f"{_ASKED} schemas are missing" if len(self._lacking) >= _ASKED else "")

    def _noted(self, wanted: SchemaId, error: SerdeError) -> SchemaLackingError:
        self._lacking[wanted] = str(error)
        return SchemaLackingError(self._lacking[wanted])


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
