"""From the records of a dead-letter topic to the columns of the index, a batch at a time.

This runs for every letter of a first build. So it works on whole lists, and remembers what many letters have in common:
the texts of their origins, and the fingerprint of a failure's class, place and message without its digits. What it
finds equals :func:`letter_of`, which a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias, cast

from arro3.core import Array, DataType, Table, list_array

from kafka_redelivery.dead_letters.decoding import SchemaLackingError, ValueTexts
from kafka_redelivery.dead_letters.foreign.letter import foreign_letter
from kafka_redelivery.dead_letters.foreign.systems import ANY
from kafka_redelivery.dead_letters.index.files import Basis
from kafka_redelivery.serdes.framing import VALUE_HEADER
from kafka_redelivery.topology.policy.decision import place_of
from kafka_redelivery.topology.policy.fingerprint import kind_of
from kafka_redelivery.topology.wire.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    EXPIRATION,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    REDRIVE,
    HeaderList,
    parse_mark,
    read_letter_expiration,
)
from kafka_redelivery.transport.assigned_reader import ReadBatch
from kafka_redelivery.transport.clients.message_headers import all_headers
from kafka_redelivery.transport.protocols import Message

SCHEMA: Final = {
    "slot": "INTEGER",
    "offset": "BIGINT",
    "died_ms": "BIGINT",
    "group": "VARCHAR",
    "origin": "VARCHAR",
    "source_id": "VARCHAR",
    "source_topic": "VARCHAR",
    "deliveries": "VARCHAR",
    "attempts": "INTEGER",
    "reason": "VARCHAR",
    "exception": "VARCHAR",
    "message": "VARCHAR",
    "place": "VARCHAR",
    "fingerprint": "VARCHAR",
    "expiration_ms": "BIGINT",
    "redrives": "INTEGER",
    "key": "VARCHAR",
    "raw_key": "BLOB",
    "header_names": "VARCHAR[]",
    "header_values": "VARCHAR[]",
    "value": "VARCHAR",
    "waiting": "BLOB",
    "waiting_header": "BLOB",
    "size": "INTEGER",
    "no_content": "BOOLEAN",
    "system": "VARCHAR",
}
"""The columns of a batch and their types in DuckDB. ``slot`` stands for topic and partition; ``source_topic`` is that
in ``source_id``, if that is an id; ``raw_key`` is set only if the key is no text; ``waiting`` is a value whose schema
cannot be had at present, with the header of its schema id, if there is one; ``no_content`` and ``system`` are those of
:class:`Letter`. The headers are those that no other column has."""

_TYPES: Final = {
    "INTEGER": DataType.int32(),
    "BIGINT": DataType.int64(),
    "VARCHAR": DataType.string(),
    "BLOB": DataType.binary(),
    "BOOLEAN": DataType.bool(),
}

_REMEMBERED: Final = 20_000
"""Texts that are kept at most, so that memory stays flat."""

_LATEST_MS: Final = 2**63 - 1
"""What fits the column; a header may say more."""

_SOURCE: Final = re.compile(rb"([A-Za-z0-9._-]{1,249})-[0-9]{1,10}@[0-9]{1,19}")
_ATTEMPTS: Final = re.compile(rb"\d{1,9}")
_CAUSE: Final = re.compile(
    rb'\{"reason":"([^"\\\x00-\x1f]*)","exception":"([^"\\\x00-\x1f]*)","message":"([^"\\\x00-\x1f]*)"'
    rb'(?:,"frames":(\[[^\\\x00-\x1f]*\]))?\}'
)
"""As we write it, if nothing has to be escaped. Any other form is read as JSON, which takes three times as long."""

_ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)
"""Messages that differ in digits alone have the same normal form: its rules know digits, but no particular one."""

_CODE_WORDS: Final = (b"http", b"status", b"response", b" error", b", message=")
"""Unless they have one of these words, with which a code stays."""

_CODES: Final = re.compile(rb"https?/[0-9.]+|(?<!\d)\d{3}(?!\d)", re.IGNORECASE)
"""What may be one then."""

Columns: TypeAlias = "dict[str, Sequence[object] | _Lists]"
"""The columns of some letters."""

Values: TypeAlias = tuple[Sequence[str | None], Sequence[bytes | None], Sequence[bytes | None]]
"""The columns ``value``, ``waiting`` and ``waiting_header``."""

Cause: TypeAlias = tuple[str | None, str | None, str | None, str | None, str | None]
"""Reason, exception, message, place and fingerprint; ``None`` where its headers do not say it."""


class RowMaker:
    """Makes the columns of letters. Not thread-safe.

    Args:
        slots: the number that stands for each topic and partition.
        basis: what is kept.
        texts: makes text of the values of each source whose values are no text, and are kept or asked for.
    """

    def __init__(
        self,
        slots: Mapping[tuple[str, int], int],
        basis: Basis,
        texts: Mapping[str, ValueTexts] | None = None,
    ) -> None:
        self._slots, self._basis, self._decoded = slots, basis, texts or {}
        self.lacking = ""
        """Why a schema could not be had; empty if all could."""

        self._undecodable = frozenset(basis.undecodable)
        self._texts, self._attempts, self._causes = _Texts(), _Attempts(), _Causes(class_only=basis.class_only)

    def columns(self, batch: ReadBatch) -> Columns:
        """Return the letters of a batch, which is not empty, with the columns of :data:`SCHEMA`."""
        messages, given = batch.messages, all_headers(batch.messages)
        # What is left after those are taken out that other columns have is stored as headers.
        rest: list[dict[str, bytes | None]] = list(map(dict, given))
        said = self._ours(given, rest) if self._basis.recognition is None else self._others(batch, given, rest)
        return {
            "slot": list(map(self._slots.__getitem__, batch.places)),
            "offset": batch.offsets,
            "died_ms": [each.timestamp()[1] for each in messages],
            "size": [len(each) or _size(each) for each in messages],
            **said,
            **self._payload(messages, cast("Sequence[str | None]", said["origin"]), rest),
        }

    def _ours(self, given: Sequence[HeaderList], rest: list[dict[str, bytes | None]]) -> dict[str, Sequence[object]]:
        texts, causes = self._texts, self._causes
        groups = [texts[each.pop(ORIG_QUEUE, None)] for each in rest]
        origins = [texts[each.pop(ORIG_ADDRESS, None)] for each in rest]
        sources = [each.pop(ORIG_MESSAGE_ID, None) for each in rest]
        source_topics = [None if each is None else _SOURCE.fullmatch(each) for each in sources]
        deliveries = [each.pop(DELIVERY_COUNT, None) for each in rest]
        cause = dict.get if self._basis.question else dict.pop
        reasons, exceptions, failures, places, prints = zip(
            *[causes[cause(each, FAILURE_CAUSE, None)] for each in rest], strict=True
        )
        return {
            "group": groups,
            "origin": origins,
            "source_id": _decoded(sources, _replaced),
            "source_topic": [None if each is None else texts[each[1]] for each in source_topics],
            "deliveries": [texts[each] for each in deliveries],
            "attempts": [self._attempts[each] for each in deliveries],
            "reason": reasons,
            "exception": exceptions,
            "message": failures,
            "place": places,
            "fingerprint": prints,
            "expiration_ms": [
                _expiration(headers, reason) if EXPIRATION in each or ACTUAL_EXPIRY in each else 0
                for headers, each, reason in zip(given, rest, reasons, strict=True)
            ],
            "redrives": [_redrives(each[REDRIVE]) if REDRIVE in each else 0 for each in rest],
            "no_content": [False] * len(rest),
            "system": [None] * len(rest),
        }

    def _others(
        self, batch: ReadBatch, given: Sequence[HeaderList], rest: list[dict[str, bytes | None]]
    ) -> dict[str, Sequence[object]]:
        """Return what the headers of another system say; all of them also stay headers, its own as it wrote them."""
        recognition = self._basis.recognition or ANY
        letters = [
            foreign_letter((*place, offset), 0, each.key(), headers, recognition, has_value=each.value() is not None)
            for each, place, offset, headers in zip(batch.messages, batch.places, batch.offsets, given, strict=True)
        ]
        rest[:] = [dict(each.headers) for each in letters]
        return {
            "group": [_encodable(each.group) or None for each in letters],
            "origin": [_encodable(each.origin) or None for each in letters],
            "source_id": [_encodable(each.source_id) or None for each in letters],
            "source_topic": [_encodable(each.origin) or None for each in letters],
            "deliveries": [each.deliveries for each in letters],
            "attempts": [self._attempts[each.deliveries.encode()] for each in letters],
            "reason": [_encodable(each.reason) for each in letters],
            "exception": [_encodable(each.exception) for each in letters],
            "message": [_encodable(each.message) for each in letters],
            "place": [None] * len(letters),
            "fingerprint": [each.fingerprint or None for each in letters],
            "expiration_ms": [each.expiration_ms for each in letters],
            "redrives": [each.mark.number if each.mark else 0 for each in letters],
            "no_content": [each.no_content for each in letters],
            "system": [each.system for each in letters],
        }

    def _payload(
        self, messages: Sequence[Message], origins: Sequence[str | None], headers: Sequence[Mapping[str, bytes | None]]
    ) -> Columns:
        names = [name for each in headers for name in each]
        ends = list(accumulate(map(len, headers), initial=0))
        if not (self._basis.values or self._basis.question):
            blank = [None] * len(messages)
            return _payload_columns(blank, blank, (blank, blank, blank), names, [None] * len(names), ends)
        keys, values = [each.key() for each in messages], [each.value() for each in messages]
        if self._undecodable and not self._basis.question:
            values = [None if o in self._undecodable else v for o, v in zip(origins, values, strict=True)]
        texts = _decoded(keys, _none)
        raw = [key if text is None else None for key, text in zip(keys, texts, strict=True)]
        contents = _decoded([value for each in headers for value in each.values()], _none)
        return _payload_columns(texts, raw, self._values(origins, values, headers), names, contents, ends)

    def _values(
        self,
        origins: Sequence[str | None],
        values: Sequence[bytes | None],
        headers: Sequence[Mapping[str, bytes | None]],
    ) -> Values:
        waiting, named = list[bytes | None]([None] * len(values)), list[bytes | None]([None] * len(values))
        if not self._decoded:
            return _decoded(values, _none), waiting, named
        found = list[str | None]()
        decoded = self._decoded
        for number, (origin, value) in enumerate(zip(origins, values, strict=True)):
            texts = decoded.get(origin) if origin else None
            text = None
            if value is not None and texts is not None:
                header = headers[number].get(VALUE_HEADER)
                try:
                    text = texts(value, header)
                except SchemaLackingError as error:
                    self.lacking = str(error)
                    waiting[number], named[number] = value, header
            elif value is not None:
                text = _text(value, _none)
            found.append(text)
        return found, waiting, named


class _Texts(dict[bytes | None, str | None]):
    """Header values as text, each decoded once."""

    def __missing__(self, value: bytes | None) -> str | None:
        if len(self) > _REMEMBERED:
            self.clear()
        text = self[value] = None if value is None else _replaced(value)
        return text


class _Attempts(dict[bytes | None, int | None]):
    """Header values as numbers, each read once; ``None`` for what is no small number."""

    def __missing__(self, value: bytes | None) -> int | None:
        if len(self) > _REMEMBERED:
            self.clear()
        found = self[value] = int(value) if value is not None and _ATTEMPTS.fullmatch(value) else None
        return found


class _Causes(dict[bytes | None, Cause]):
    """Causes of failure by the header that says them, each read once."""

    def __init__(self, *, class_only: bool) -> None:
        super().__init__()
        self._class_only = class_only
        self._fingerprints: dict[tuple[object, ...], str] = {}
        self._coded: set[bytes] = set()
        self._places: dict[bytes, str | None] = {}

    def __missing__(self, value: bytes | None) -> Cause:
        if len(self) > _REMEMBERED:
            self.clear()
        cause = self[value] = self._plain(value) or self._other(value)
        return cause

    def _plain(self, value: bytes | None) -> Cause | None:
        """Return a cause in which nothing is escaped: the usual case."""
        parts = _CAUSE.fullmatch(value) if value is not None and value.isascii() else None
        if value is None or parts is None:
            return None
        reason, exception, message, frames = parts.groups()
        place = None if frames is None else self._place(frames)
        if frames is not None and place is None:
            return None
        alike = message.translate(_ALIKE)
        codes = _CODES.findall(message) if alike in self._coded else ()
        found = self._fingerprints.get((reason, exception, place, alike, *codes))
        if found is None:
            if len(self._fingerprints) > _REMEMBERED:
                self._fingerprints.clear()
                self._coded.clear()
            found = self._fingerprint(reason.decode(), exception.decode(), message.decode(), place)
            lower = alike.lower()
            if not codes and any(word in lower for word in _CODE_WORDS):
                self._coded.add(alike)
                codes = _CODES.findall(message)
            self._fingerprints[reason, exception, place, alike, *codes] = found
        kept = None if self._class_only else message.decode()
        return reason.decode(), exception.decode(), kept, place or None, found or None

    def _place(self, frames: bytes) -> str | None:
        """Return the place of a JSON list of frames; ``None`` if it is none."""
        if frames not in self._places:
            if len(self._places) > _REMEMBERED:
                self._places.clear()
            try:
                found = json.loads(frames)
            except (ValueError, RecursionError):
                found = [None]
            is_plain = isinstance(found, list) and all(isinstance(each, str) for each in found)
            self._places[frames] = place_of(found) if is_plain else None
        return self._places[frames]

    def _other(self, value: bytes | None) -> Cause:
        reason, exception, message, place = _read_cause("" if value is None else _replaced(value))
        found = self._fingerprint(reason or "", exception or "", message or "", place)
        kept = None if self._class_only else _encodable(message)
        return _encodable(reason), _encodable(exception), kept, _encodable(place) or None, found or None

    def _fingerprint(self, reason: str, exception: str, message: str, place: str | None) -> str:
        if not (reason or exception or message):
            return ""
        return kind_of(exception, "" if self._class_only else message, place)[1]


def _payload_columns(
    keys: Sequence[object],
    raw_keys: Sequence[object],
    values: Values,
    names: Sequence[str],
    contents: Sequence[str | None],
    ends: Sequence[int],
) -> Columns:
    return {
        "key": keys,
        "raw_key": raw_keys,
        "value": values[0],
        "waiting": values[1],
        "waiting_header": values[2],
        "header_names": _Lists(names, ends),
        "header_values": _Lists(contents, ends),
    }


def table_of(columns: Columns, schema: Mapping[str, str] = SCHEMA) -> Table:
    """Return the columns of a schema as a table."""
    return Table.from_arrays([_array(columns[name], kind) for name, kind in schema.items()], names=list(schema))


def answered(columns: Columns, basis: Basis, chosen: Collection[tuple[int, int]]) -> Columns:
    """Return columns without what an index does not keep, and with ``chosen``: those at these slots and offsets."""
    places = zip(columns["slot"], columns["offset"], strict=True)
    blank = [None] * len(columns["slot"])
    found = columns | {
        "chosen": [place in chosen for place in places],
        "waiting": blank,
        "waiting_header": blank,
    }
    if basis.values:
        pairs = zip(columns["origin"], columns["value"], strict=True)
        return found | {"value": [None if origin in basis.undecodable else value for origin, value in pairs]}
    headers = cast("_Lists", columns["header_values"])
    names = _Lists([None] * len(headers.elements), headers.ends)
    return found | {"key": blank, "raw_key": blank, "value": blank, "header_values": names}


class _Lists(NamedTuple):
    """The elements of lists one after the other, and where each list ends."""

    elements: Sequence[object]
    ends: Sequence[int]


def _array(values: Sequence[object] | _Lists, kind: str) -> Array:
    if isinstance(values, _Lists):
        return list_array(Array(values.ends, _TYPES["INTEGER"]), Array(values.elements, _TYPES["VARCHAR"]))
    return Array(values, _TYPES[kind])


def _read_cause(text: str) -> tuple[str | None, str | None, str | None, str | None]:
    """Read a cause as :func:`read_failure_cause`; ``None`` for what it does not say."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    cause = found if isinstance(found, dict) else {}
    reason, exception, message = (
        None if cause.get(name) is None else str(cause[name] or "") for name in ("reason", "exception", "message")
    )
    frames = cause.get("frames")
    return reason, exception, message, place_of([str(each) for each in frames]) if isinstance(frames, list) else None


def _decoded(values: Iterable[bytes | None], otherwise: Callable[[bytes], str | None]) -> list[str | None]:
    """Return texts; ``otherwise`` is asked for those that are not UTF-8."""
    given = list(values)
    try:
        return [None if each is None else each.decode() for each in given]
    except UnicodeDecodeError:
        return [None if each is None else _text(each, otherwise) for each in given]


def _text(value: bytes, otherwise: Callable[[bytes], str | None]) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return otherwise(value)


def _replaced(value: bytes) -> str:
    return value.decode(errors="replace")


def _none(_: bytes) -> None:
    return None


def _encodable(text: str | None) -> str | None:
    """Return a text without lone surrogates, which JSON can name and UTF-8 cannot."""
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()


def _expiration(headers: HeaderList, reason: str | None) -> int:
    return min(read_letter_expiration(headers, reason or ""), _LATEST_MS)


def _redrives(value: bytes | None) -> int:
    mark = parse_mark(_replaced(value or b""))
    return mark.number if mark else 0


def _size(message: Message) -> int | None:
    return None if message.value() is None else 0
