"""A selection of letters as an SQL condition that selects the same ones; a test compares both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_redelivery.dead_letters.index.view import IN_COLUMNS
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.where.expression import Header, nodes
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.where.where import Where

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


def can_select(selection: Selection, *, values: bool, decoded: bool = True) -> bool:
    """Whether an index can answer a selection; otherwise the letters have to be read.

    Args:
        selection: which letters are meant.
        values: whether the index has keys, header values and values.
        decoded: whether it has the values of all sources, none being Avro.
    """
    if selection.where is not None and not _can_evaluate(selection.where, values=values, decoded=decoded):
        return False
    texts = (*selection.keys, *(value for _, value in selection.headers))
    unreadable = any(_REPLACEMENT in text for text in texts)
    hidden = any(name == FAILURE_CAUSE for name, _ in selection.headers)
    return (values or not texts) and not unreadable and not hidden


def condition_of(selection: Selection, rows: Callable[[str], Iterable[Sequence[Any]]]) -> Condition:
    """Return the condition for a selection that :func:`can_select`, without its ``where``.

    Args:
        selection: which letters are meant.
        rows: runs a query of the index. It is asked which texts there are, so that patterns mean the same everywhere.
    """
    found = EVERY
    patterns = {"origin": selection.origins, "reason": selection.reasons, "exception": selection.exceptions}
    for column, wanted in patterns.items():
        if wanted:
            texts = [row[0] for row in rows(f"SELECT DISTINCT coalesce({column}, '') FROM stored_letters")]  # noqa: S608
            meant = [text for text in texts if any(fnmatchcase(text, pattern) for pattern in wanted)]
            found &= _one_of(f"coalesce({column}, '')", meant)
    if selection.fingerprints:
        found &= _one_of("fingerprint", selection.fingerprints)
    if selection.keys:
        found &= _one_of("key", selection.keys)
    for name, value in selection.headers:
        found &= _header(name, value)
    if selection.since_ms is not None:
        found &= Condition("died_ms >= ?", (selection.since_ms,))
    if selection.until_ms is not None:
        found &= Condition("died_ms < ?", (selection.until_ms,))
    if selection.states:
        found &= _one_of("state", [str(state) for state in selection.states])
    if selection.ids:
        names = sorted(selection.ids)
        first, second = _one_of("id", names), _one_of("source_id", names)
        found &= Condition(f"({first.sql}) OR ({second.sql})", first.parameters + second.parameters)
    return found


def _can_evaluate(where: Where, *, values: bool, decoded: bool) -> bool:
    causes = any(node == Header(FAILURE_CAUSE) for node in nodes(where.expression))
    kept = values or not where.columns & {"key", "headers", "value"}
    return kept and not causes and (decoded or "value" not in where.columns)


def of_group(group: str) -> Condition:
    """Return the condition for the letters of a group."""
    return Condition("coalesce(\"group\", '') = ?", (group,))


def unexpired(now_ms: int) -> Condition:
    """Return the condition for letters that have not expired (epoch ms)."""
    return Condition("NOT (expiration_ms > 0 AND expiration_ms <= ?)", (now_ms,))


def _header(name: str, value: str) -> Condition:
    if name in IN_COLUMNS:
        return Condition(f"{IN_COLUMNS[name]} = ?", (value,))
    return Condition("map_contains(headers, ?) AND coalesce(headers[?], '') = ?", (name, name, value))


def _one_of(column: str, texts: Sequence[str]) -> Condition:
    if 0 < len(texts) <= _LISTED:
        return Condition(f"{column} IN ({', '.join('?' * len(texts))})", tuple(texts))
    return Condition(f"{column} IN (SELECT unnest(?::VARCHAR[]))", (list(texts),))
