"""A selection of letters as an SQL condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.index.files import Basis
from kafka_redelivery.dead_letters.index.view import IN_COLUMNS
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.where.columns import OF_CONTENT
from kafka_redelivery.dead_letters.where.expression import Header, nodes
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE

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
    hidden = basis.mapping is None and FAILURE_CAUSE in headers
    return (basis.values or not asks) and not hidden and not (basis.undecodable and "value" in columns)


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
        found &= _header(name, value, ours=basis.mapping is None)
    if selection.ids:
        ids = sorted(selection.ids)
        first, second = _one_of("id", ids), _one_of("source_id", ids)
        either = Condition(f"({first.sql}) OR ({second.sql})", first.parameters + second.parameters)
        found &= first if selection.letters_only else either
    return found if selection.where is None else found & Condition(*selection.where.duckdb)


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
