"""From the records of a dead-letter topic to the columns of the index, a batch at a time.

This runs for every letter of a first build. So it works on whole lists, and remembers what many letters have in common:
the texts of their origins, and the fingerprint of a failure's class and message without its digits. What it finds
equals :func:`letter_of`, which a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from arro3.core import Array, DataType, Table, list_array

from kafka_redelivery.topology.policy.fingerprint import fingerprint, normalise
from kafka_redelivery.topology.wire.headers import (
    DELIVERY_COUNT,
    EXPIRATION,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    REDRIVE,
    HeaderList,
    read_expiration,
)
from kafka_redelivery.topology.wire.redrive_mark import parse_mark
from kafka_redelivery.transport.clients.bulk_reader import Batch
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
    "fingerprint": "VARCHAR",
    "expiration_ms": "BIGINT",
    "redrives": "INTEGER",
    "key": "VARCHAR",
    "raw_key": "BLOB",
    "header_names": "VARCHAR[]",
    "header_values": "VARCHAR[]",
    "value": "VARCHAR",
    "size": "INTEGER",
}
"""The columns of a batch and their types in DuckDB. ``slot`` stands for topic and partition; ``source_topic`` is that
in ``source_id``, if that is an id; ``raw_key`` is set only if the key is no text. The headers are those that no other
column has."""

_TYPES: Final = {
    "INTEGER": DataType.int32(),
    "BIGINT": DataType.int64(),
    "VARCHAR": DataType.string(),
    "BLOB": DataType.binary(),
}

_REMEMBERED: Final = 20_000
"""Texts that are kept at most, so that memory stays flat."""

_LATEST_MS: Final = 2**63 - 1
"""What fits the column; a header may say more."""

_SOURCE: Final = re.compile(rb"([A-Za-z0-9._-]{1,249})-[0-9]{1,10}@[0-9]{1,19}")
_ATTEMPTS: Final = re.compile(rb"\d{1,9}")
_CAUSE: Final = re.compile(
    rb'\{"reason":"([^"\\\x00-\x1f]*)","exception":"([^"\\\x00-\x1f]*)","message":"([^"\\\x00-\x1f]*)"\}'
)
"""As we write it, if nothing has to be escaped. Any other form is read as JSON, which takes three times as long."""

_ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)
"""Messages that differ in digits alone have the same normal form: its rules know digits, but no particular one."""


Cause: TypeAlias = tuple[str | None, str | None, str | None, str | None]
"""Reason, exception, message and fingerprint; ``None`` where its headers do not say it."""


class RowMaker:
    """Makes the columns of letters. Not thread-safe.

    Args:
        slots: the number that stands for each topic and partition.
        class_only: whether texts of exceptions are left out, and a fingerprint is that of the class alone.
        values: whether keys, values and the values of headers are kept.
        undecodable: source topics whose values are not text, such as Avro.
    """

    def __init__(
        self, slots: Mapping[tuple[str, int], int], *, class_only: bool, values: bool, undecodable: frozenset[str]
    ) -> None:
        self._slots, self._values, self._undecodable = slots, values, undecodable
        self._texts, self._attempts, self._causes = _Texts(), _Attempts(), _Causes(class_only=class_only)

    def table(self, batch: Batch) -> Table:
        """Return the letters of a batch, which is not empty, with the columns of :data:`SCHEMA`."""
        messages, texts, causes = batch.messages, self._texts, self._causes
        given = all_headers(messages)
        # What is left after these are taken out is stored as headers.
        rest: list[dict[str, bytes | None]] = list(map(dict, given))
        groups = [texts[each.pop(ORIG_QUEUE, None)] for each in rest]
        origins = [texts[each.pop(ORIG_ADDRESS, None)] for each in rest]
        sources = [each.pop(ORIG_MESSAGE_ID, None) for each in rest]
        source_topics = [None if each is None else _SOURCE.fullmatch(each) for each in sources]
        deliveries = [each.pop(DELIVERY_COUNT, None) for each in rest]
        reasons, exceptions, failures, prints = zip(
            *[causes[each.pop(FAILURE_CAUSE, None)] for each in rest], strict=True
        )
        columns: dict[str, Sequence[object] | _Lists] = {
            "slot": list(map(self._slots.__getitem__, batch.places)),
            "offset": batch.offsets,
            "died_ms": [each.timestamp()[1] for each in messages],
            "group": groups,
            "origin": origins,
            "source_id": _decoded(sources, _replaced),
            "source_topic": [None if each is None else texts[each[1]] for each in source_topics],
            "deliveries": [texts[each] for each in deliveries],
            "attempts": [self._attempts[each] for each in deliveries],
            "reason": reasons,
            "exception": exceptions,
            "message": failures,
            "fingerprint": prints,
            "expiration_ms": [
                _expiration(headers) if EXPIRATION in each else 0 for headers, each in zip(given, rest, strict=True)
            ],
            "redrives": [_redrives(each[REDRIVE]) if REDRIVE in each else 0 for each in rest],
            "size": [len(each) or _size(each) for each in messages],
            **self._payload(messages, origins, rest),
        }
        return Table.from_arrays([_array(columns[name], kind) for name, kind in SCHEMA.items()], names=list(SCHEMA))

    def _payload(
        self, messages: Sequence[Message], origins: Sequence[str | None], headers: Sequence[Mapping[str, bytes | None]]
    ) -> dict[str, Sequence[object] | _Lists]:
        names = [name for each in headers for name in each]
        ends = list(accumulate(map(len, headers), initial=0))
        if not self._values:
            blank = [None] * len(messages)
            contents: list[str | None] = [None] * len(names)
            return _payload_columns(blank, blank, blank, names, contents, ends)
        keys, values = [each.key() for each in messages], [each.value() for each in messages]
        if self._undecodable:
            values = [None if o in self._undecodable else v for o, v in zip(origins, values, strict=True)]
        texts = _decoded(keys, _none)
        raw = [key if text is None else None for key, text in zip(keys, texts, strict=True)]
        contents = _decoded([value for each in headers for value in each.values()], _none)
        return _payload_columns(texts, raw, _decoded(values, _none), names, contents, ends)


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
        self._fingerprints: dict[tuple[bytes, bytes], str] = {}

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
        reason, exception, message = parts.groups()
        alike = exception, value.translate(_ALIKE)
        found = self._fingerprints.get(alike)
        if found is None:
            if len(self._fingerprints) > _REMEMBERED:
                self._fingerprints.clear()
            found = self._fingerprint(reason.decode(), exception.decode(), message.decode())
            self._fingerprints[alike] = found
        kept = None if self._class_only else message.decode()
        return reason.decode(), exception.decode(), kept, found or None

    def _other(self, value: bytes | None) -> Cause:
        reason, exception, message = _read_cause("" if value is None else _replaced(value))
        found = self._fingerprint(reason or "", exception or "", message or "")
        kept = None if self._class_only else _encodable(message)
        return _encodable(reason), _encodable(exception), kept, found or None

    def _fingerprint(self, reason: str, exception: str, message: str) -> str:
        if not (reason or exception or message):
            return ""
        return fingerprint(exception, "" if self._class_only else normalise(message))


def _payload_columns(
    keys: Sequence[object],
    raw_keys: Sequence[object],
    values: Sequence[object],
    names: Sequence[str],
    contents: Sequence[str | None],
    ends: Sequence[int],
) -> dict[str, Sequence[object] | _Lists]:
    return {
        "key": keys,
        "raw_key": raw_keys,
        "value": values,
        "header_names": _Lists(names, ends),
        "header_values": _Lists(contents, ends),
    }


class _Lists(NamedTuple):
    """The elements of lists one after the other, and where each list ends."""

    elements: Sequence[object]
    ends: Sequence[int]


def _array(values: Sequence[object] | _Lists, kind: str) -> Array:
    if isinstance(values, _Lists):
        return list_array(Array(values.ends, _TYPES["INTEGER"]), Array(values.elements, _TYPES["VARCHAR"]))
    return Array(values, _TYPES[kind])


def _read_cause(text: str) -> tuple[str | None, str | None, str | None]:
    """Read a cause as :func:`read_failure_cause`; ``None`` for what it does not say."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    cause = found if isinstance(found, dict) else {}
    reason, exception, message = (
        None if cause.get(name) is None else str(cause[name] or "") for name in ("reason", "exception", "message")
    )
    return reason, exception, message


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


def _expiration(headers: HeaderList) -> int:
    return min(read_expiration(headers), _LATEST_MS)


def _redrives(value: bytes | None) -> int:
    mark = parse_mark(_replaced(value or b""))
    return mark.number if mark else 0


def _size(message: Message) -> int | None:
    return None if message.value() is None else 0
