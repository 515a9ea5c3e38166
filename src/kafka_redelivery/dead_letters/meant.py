"""Which of the dead letters that were read a selection means, `--where` included.

DuckDB evaluates the condition in memory, some thousand letters at a time, over the columns that it names alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.time_limit import time_limit
from kafka_redelivery.serdes.decoded_json import as_json
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.config.settings import CodecSection, Settings
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.transport.clients.message_headers import sizes_of_headers

if TYPE_CHECKING:
    import duckdb

    from kafka_redelivery.dead_letters.where.where import Where
    from kafka_redelivery.serdes.codec import Codec

_LETTERS: Final = 2000
_BYTES: Final = 32 * 2**20
_LIMIT_S: Final = 60.0
_ATTEMPTS: Final = re.compile("[0-9]{1,9}")

_VARCHAR: Final = "unnest(?::VARCHAR[])"
_BIGINT: Final = "unnest(?::BIGINT[])"
_TIME: Final = "epoch_ms(unnest(?::BIGINT[]))"
_MAP: Final = "map(unnest(?::VARCHAR[][]), unnest(?::VARCHAR[][]))"


def meant(
    letters: Iterable[StoredLetter], selection: Selection, settings: Settings, base: Path, limit_s: float = _LIMIT_S
) -> Iterator[StoredLetter]:
    """Yield the dead letters that a selection means, in their order.

    Args:
        letters: those that were read.
        selection: which are meant.
        settings: say which values are Avro.
        base: the folder of the configuration, to which paths of schemas are relative.
        limit_s: how long some thousand letters may take.

    Raises:
        RedriveError: the package that evaluates the condition is missing.
        SerdeError: a schema of the configuration cannot be read.
        SlowQueryError: the condition takes longer.
    """
    matching = (each for each in letters if selection.matches(each.letter, each.standing))
    if selection.where is None:
        yield from matching
        return
    condition = _Condition(selection.where, Values(settings, base), limit_s)
    try:
        for batch in _batches(matching):
            yield from condition.met_by(batch)
    finally:
        condition.close()


class Values:
    """The values of letters as text. Of Avro it is the JSON of the decoded value."""

    def __init__(self, settings: Settings, base: Path) -> None:
        self._avro: Mapping[str, Codec] = {
            source.topic: codecs(CodecSection(key=source.key, value=source.value), base)[1]
            for source in settings.sources
            if source.value.format == "avro"
        }

    def text(self, found: StoredLetter) -> str | None:
        """Return the text of a value, ``None`` if there is none, it cannot be decoded or it is not UTF-8."""
        data = found.message.value()
        codec = self._avro.get(found.letter.origin)
        if data is None or codec is None:
            return _text(data)
        try:
            return as_json(codec.decode(data))
        except SerdeError:
            return None


class _Condition:
    """A condition that DuckDB evaluates."""

    def __init__(self, where: Where, values: Values, limit_s: float) -> None:
        columns = {name: _COLUMNS[name](values) for name in sorted(where.columns)}
        self._parts = [part for _, *parts in columns.values() for part in parts]
        shapes = [f'{shape} AS "{name}"' for name, (shape, *_) in columns.items()]
        condition = where.duckdb
        rows = ", ".join(["unnest(range(?)) AS row", *shapes])
        self._sql = f"SELECT row FROM (SELECT {rows}) WHERE {condition.sql} ORDER BY row"  # noqa: S608 - compiled
        self._parameters = condition.parameters
        self._limit_s = limit_s
        self._duckdb = _opened()

    def met_by(self, batch: list[StoredLetter]) -> Iterator[StoredLetter]:
        """Yield those that meet it."""
        parts = [[of(each) for each in batch] for of in self._parts]
        with time_limit(self._duckdb, self._limit_s):
            rows = self._duckdb.execute(self._sql, [len(batch), *parts, *self._parameters]).fetchall()
        for (row,) in rows:
            yield batch[row]

    def close(self) -> None:
        """Free what DuckDB holds."""
        self._duckdb.close()


def _opened() -> duckdb.DuckDBPyConnection:
    try:
        from duckdb import connect  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise RedriveError(
            "--where needs the extra index: pip install 'kafka-redelivery[index]'; the other options select without it"
        ) from None
    # Conditions are compiled from an allow-list; should one get through, it reads nothing.
    return connect(config={"threads": 1, "enable_external_access": False, "lock_configuration": True})


def _batches(letters: Iterable[StoredLetter]) -> Iterator[list[StoredLetter]]:
    batch: list[StoredLetter] = []
    size = 0
    for each in letters:
        batch.append(each)
        size += len(each.message.value() or b"") + sizes_of_headers([each.message])[0]
        if len(batch) == _LETTERS or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _attempts(found: StoredLetter) -> int | None:
    return int(found.letter.deliveries) if _ATTEMPTS.fullmatch(found.letter.deliveries) else None


def _header_values(found: StoredLetter) -> list[str | None]:
    return [_text(value) for value in found.letter.headers.values()]


def _said(text: str) -> str | None:
    """Return a text of a JSON header, which can name lone surrogates; ``None`` if it is empty."""
    return (text if text.isascii() else text.encode(errors="replace").decode()) or None


def _expires(found: StoredLetter) -> int | None:
    return min(found.letter.expiration_ms, LATEST_MS) or None


def _size(found: StoredLetter) -> int | None:
    data = found.message.value()
    return None if data is None else len(data)


_Column: TypeAlias = tuple[str, *tuple[Callable[[StoredLetter], object], ...]]
"""Its SQL, and a value of each letter for each question mark."""

_COLUMNS: Final[Mapping[str, Callable[[Values], _Column]]] = {
    "id": lambda _: (_VARCHAR, lambda each: each.letter.id),
    "topic": lambda _: (_VARCHAR, lambda each: each.letter.topic),
    "partition": lambda _: (_BIGINT, lambda each: each.letter.partition),
    "offset": lambda _: (_BIGINT, lambda each: each.letter.offset),
    "died": lambda _: (_TIME, lambda each: min(max(0, each.letter.timestamp_ms), LATEST_MS)),
    "group": lambda _: (_VARCHAR, lambda each: each.letter.group or None),
    "origin": lambda _: (_VARCHAR, lambda each: each.letter.origin or None),
    "source_id": lambda _: (_VARCHAR, lambda each: each.letter.message_id or None),
    "attempts": lambda _: (_BIGINT, _attempts),
    "reason": lambda _: (_VARCHAR, lambda each: _said(each.letter.reason)),
    "exception": lambda _: (_VARCHAR, lambda each: _said(each.letter.exception)),
    "message": lambda _: (_VARCHAR, lambda each: None if each.letter.class_only else _said(each.letter.message)),
    "fingerprint": lambda _: (_VARCHAR, lambda each: each.letter.fingerprint or None),
    "expires": lambda _: (_TIME, _expires),
    "key": lambda _: (_VARCHAR, lambda each: _text(each.letter.key)),
    # Not as dicts: DuckDB makes of them structs with the names of the headers of all letters.
    "headers": lambda _: (_MAP, lambda each: list(each.letter.headers), _header_values),
    "value": lambda values: (_VARCHAR, values.text),
    "size": lambda _: (_BIGINT, _size),
    "state": lambda _: (_VARCHAR, lambda each: str(each.standing.state)),
    "job": lambda _: (_VARCHAR, lambda each: each.standing.job),
    "sends": lambda _: (_BIGINT, lambda each: each.standing.sends),
}
