"""The tables of an index in SQL, and a selection of letters as a condition.

The table ``letters`` has the columns of ``dead_letters/where/columns.py``, and some more for lists. The table
``stored_letters`` is the same without :data:`STANDING`, and so without a join with where letters stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import add
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.index.files import Basis, Slot
from kafka_redelivery.dead_letters.index.rows import SCHEMA
from kafka_redelivery.dead_letters.letter import LetterState, Selection
from kafka_redelivery.dead_letters.where.columns import OF_CONTENT
from kafka_redelivery.dead_letters.where.expression import Header, nodes
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.headers import (
    DELIVERY_COUNT,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
)

IN_COLUMNS: Final = {
    ORIG_ADDRESS: "origin",
    ORIG_QUEUE: '"group"',
    ORIG_MESSAGE_ID: "source_id",
    DELIVERY_COUNT: "deliveries",
}
"""Headers that are stored as columns alone. The map has those that a letter lacks, too, with NULL."""

_OUR_HEADERS: Final = "map([{}] || header_names, [{}] || header_values)".format(
    ", ".join(f"'{name}'" for name in IN_COLUMNS), ", ".join(IN_COLUMNS.values())
)

STANDING: Final = ("state", "job", "sends")
"""The columns that jobs decide."""

_STANDING: Final = re.compile(rf"\b(?:{'|'.join(STANDING)})\b", re.IGNORECASE)


def table_for(*parts: str) -> str:
    """Return the table for a query with these parts: ``letters`` if one of them may name a column of standings."""
    return "letters" if any(map(_STANDING.search, parts)) else "stored_letters"


def stored_view(letters: str, slots: Sequence[Slot], *, ours: bool = True, chosen: bool = False) -> str:
    """Return the query of ``stored_letters``, from an SQL expression for the rows of its files.

    Args:
        letters: the expression.
        slots: those of the index.
        ours: whether the letters are ours, so that some of their headers are stored as columns.
        chosen: whether the rows say which letters one selection means.
    """
    # The texts are constants of ours, names of files and topics of the configuration. With lists instead of a join with
    # a table of the slots, a query takes half as long. Rows of slots that are gone stay in the files for a while.
    first = min((each.number for each in slots), default=0)
    known = {each.number: each for each in slots}
    every = [known.get(number) for number in range(first, max(known, default=first) + 1)]

    def of_slot(values: Sequence[str]) -> str:
        return f"[{', '.join(values)}][slot - {first} + 1]"

    topics = of_slot(["NULL" if each is None else quoted(each.topic) for each in every])
    partitions = of_slot(["NULL" if each is None else str(each.partition) for each in every])
    starts = of_slot(["NULL" if each is None else f"{each.start}::BIGINT" for each in every])
    present = ", ".join(map(str, known)) or "NULL"
    some_deleted = any(each.start for each in slots)
    return f"""
        SELECT {topics}::VARCHAR || '-' || {partitions}::INTEGER || '@' || "offset" AS id,
               {topics}::VARCHAR AS topic, {partitions}::INTEGER AS partition, "offset",
               epoch_ms(greatest(0, least(died_ms, {LATEST_MS}))) AS died,
               "group", origin, source_id, attempts, nullif(reason, '') AS reason, nullif(exception, '') AS exception,
               nullif(message, '') AS message, place, fingerprint,
               CASE WHEN expiration_ms > 0 THEN epoch_ms(least(expiration_ms, {LATEST_MS})) END AS expires,
               key,
               {_OUR_HEADERS if ours else "map(header_names, header_values)"} AS headers,
               value, size, died_ms, expiration_ms, redrives, deliveries, raw_key, source_topic, no_content, system,
               slot, waiting IS NOT NULL AS waits
               {", chosen" if chosen else ""}
        FROM {letters}
        WHERE slot IN ({present}) {f'AND "offset" >= {starts}' if some_deleted else ""}
    """  # noqa: S608


def letters_view() -> str:
    """Return the query of ``letters``, from ``stored_letters`` and ``standings``."""
    return f"""
        SELECT stored.*, coalesce(standings.state, '{LetterState.WAITING}') AS state, standings.job,
               coalesce(standings.sends, 0) AS sends
        FROM stored_letters AS stored
        LEFT JOIN standings ON standings.slot = stored.slot AND standings."offset" = stored."offset"
    """  # noqa: S608


def quoted(text: str) -> str:
    """Return a text as a constant of SQL."""
    return "'" + text.replace("'", "''") + "'"


def empty_letters() -> str:
    """Return a query for no letters."""
    return _empty(SCHEMA | {"chosen": "BOOLEAN"})


def empty_standings() -> str:
    """Return a query for no standings."""
    columns = {"slot": "INTEGER", "offset": "BIGINT", "state": "VARCHAR", "job": "VARCHAR", "sends": "INTEGER"}
    return _empty({**columns, "decided_ms": "BIGINT"})


def _empty(columns: Mapping[str, str]) -> str:
    return "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in columns.items()) + " WHERE false"


_REPLACEMENT = "\ufffd"
"""What a selection sees in place of bytes that are no text."""


_LISTED: Final = 50
"""So many texts are compared one by one, while the files are read; more are looked up."""


class Condition(NamedTuple):
    """An SQL condition, and the values of its question marks."""

    sql: str
    parameters: tuple[object, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        """Return the condition that both are met."""
        return Condition(f"({self.sql}) AND ({other.sql})", self.parameters + other.parameters)


EVERY = Condition("true")


def can_select(selection: Selection, basis: Basis) -> bool:
    """Whether an index keeps what a selection asks for."""
    columns = selection.where.columns if selection.where is not None else frozenset[str]()
    asks = selection.keys or selection.headers or columns & OF_CONTENT
    headers = [name for name, _ in selection.headers]
    if selection.where is not None:
        headers += [each.name for each in nodes(selection.where.expression) if isinstance(each, Header)]
    hidden = basis.recognition is None and FAILURE_CAUSE in headers
    return (basis.values or not asks) and not hidden and not (basis.undecodable and selection.asks_for_values)


def condition_of(selection: Selection, rows: Callable[[str], Iterable[Sequence[Any]]], basis: Basis) -> Condition:
    """Return the condition for a selection.

    Args:
        selection: which letters are meant.
        rows: runs a query of the index. It is asked which texts there are, so that patterns mean the same everywhere.
        basis: what the index keeps.

    Raises:
        RedriveError: a key or header has a character that stands for bytes that are no text.
    """
    _refuse_no_text(selection)
    found = EVERY
    patterns = {"origin": selection.origins, "reason": selection.reasons, "exception": selection.exceptions}
    for column, wanted in patterns.items():
        if wanted:
            texts = [row[0] for row in rows(f"SELECT DISTINCT coalesce({column}, '') FROM stored_letters")]  # noqa: S608
            meant = [text for text in texts if any(fnmatchcase(text, pattern) for pattern in wanted)]
            found &= _one_of(f"coalesce({column}, '')", meant)
    given = {"fingerprint": selection.fingerprints, "key": selection.keys, "state": selection.states}
    for column, names in given.items():
        if names:
            found &= _one_of(column, [str(each) for each in names])
    for bound, at_ms in {"died_ms >= ?": selection.since_ms, "died_ms < ?": selection.until_ms}.items():
        if at_ms is not None:
            found &= Condition(bound, (at_ms,))
    for name, value in selection.headers:
        found &= _header(name, value, ours=basis.recognition is None)
    if selection.ids:
        ids = sorted(selection.ids)
        first, second = _one_of("id", ids), _one_of("source_id", ids)
        either = Condition(f"({first.sql}) OR ({second.sql})", first.parameters + second.parameters)
        found &= first if selection.letters_only else either
    return found if selection.where is None else found & Condition(*selection.where.duckdb)


class Undecoded(NamedTuple):
    """Letters whose values cannot be decoded, so that a condition on values does not mean them."""

    values: int = 0
    waiting: int = 0
    """Those whose schemas could not be had."""

    def __add__(self, other: object) -> Undecoded:
        """Return the sums."""
        return Undecoded(*map(add, self, other)) if isinstance(other, Undecoded) else NotImplemented


def undecoded(
    selection: Selection,
    rows: Callable[[str, Sequence[object]], Iterable[Sequence[Any]]],
    basis: Basis,
    now_ms: int,
) -> Undecoded:
    """Count them among the letters of the group that the rest of a selection means, without ``where``.

    Args:
        selection: which letters are meant.
        rows: runs a query of the index.
        basis: what the index keeps.
        now_ms: letters that have expired by then (epoch ms) do not count.
    """
    rest = condition_of(replace(selection, where=None), lambda sql: rows(sql, ()), basis)
    meant = rest & ours(basis) & unexpired(now_ms) & _one_of("origin", basis.coded)
    sql = f"""
        SELECT count(*), count(*) FILTER (waits) FROM {table_for(rest.sql)}
        WHERE value IS NULL AND size IS NOT NULL AND {meant.sql}
    """  # noqa: S608 - compiled
    return Undecoded(*next(iter(rows(sql, meant.parameters))))


def ours(basis: Basis) -> Condition:
    """Return the condition for letters of the group; another system's are all meant."""
    return Condition("coalesce(\"group\", '') = ?", (basis.group,)) if basis.recognition is None else EVERY


def _refuse_no_text(selection: Selection) -> None:
    options = [("--key", key) for key in selection.keys] + [("--header", value) for _, value in selection.headers]
    for option, text in options:
        if _REPLACEMENT in text:
            raise RedriveError(
                f"{option} {text!r} stands for bytes that are no text; name such letters with --id, which `redelivery "
                "dlq list --each` prints"
            )


def unexpired(now_ms: int) -> Condition:
    """Return the condition for letters that have not expired (epoch ms)."""
    return Condition("NOT (expiration_ms > 0 AND expiration_ms <= ?)", (now_ms,))


def _header(name: str, value: str, *, ours: bool) -> Condition:
    if ours and name in IN_COLUMNS:
        return Condition(f"{IN_COLUMNS[name]} = ?", (value,))
    return Condition("map_contains(headers, ?) AND coalesce(headers[?], '') = ?", (name, name, value))


def _one_of(column: str, texts: Sequence[str]) -> Condition:
    if 0 < len(texts) <= _LISTED:
        return Condition(f"{column} IN ({', '.join('?' * len(texts))})", tuple(texts))
    return Condition(f"{column} IN (SELECT unnest(?::VARCHAR[]))", (list(texts),))
