"""Which dead letters are meant, from what a person has written: options of a command, or fields of a form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from kafka_redelivery.dead_letters.letter import LetterState, Selection
from kafka_redelivery.topology.durations import parse_time
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.policy.lineage import parse_message_id

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index

FIELDS: Final = (
    "origin",
    "reason",
    "exception",
    "fingerprint",
    "key",
    "header",
    "since",
    "until",
    "state",
    "id",
    "where",
)
"""What a selection may be given by: the options of `redelivery dlq`, without their dashes."""

SINGLE: Final = frozenset({"since", "until", "where"})
"""The fields that have one value; the others may have several, of which one has to fit."""


def selection_of(given: Mapping[str, Sequence[str] | str | None], now_ms: int) -> Selection:
    """Return what is selected.

    Args:
        given: the values by field. What is missing, ``None`` or empty selects by nothing.
        now_ms: the present (epoch ms), from which durations are counted back.

    Raises:
        OptionError: the value of a field is wrong.
        ExpressionError: ``where`` cannot be understood.
    """

    def texts(field: str) -> tuple[str, ...]:
        found = given.get(field)
        return () if found is None else (found,) if isinstance(found, str) else tuple(found)

    def time_ms(field: str) -> int | None:
        try:
            return next((parse_time(each, now_ms, ago=True) for each in texts(field)), None)
        except ValueError as error:
            raise OptionError(field, str(error)) from None

    for each in texts("fingerprint"):
        if not re.fullmatch("[0-9a-f]{16}", each):
            raise OptionError("fingerprint", f"{each!r} is not 16 hex digits")
    for each in texts("state"):
        if each not in set(LetterState):
            raise OptionError("state", f"{each!r} is no state")
    selection = Selection(
        origins=texts("origin"),
        reasons=texts("reason"),
        exceptions=texts("exception"),
        fingerprints=texts("fingerprint"),
        keys=texts("key"),
        headers=tuple(map(_header, texts("header"))),
        since_ms=time_ms("since"),
        until_ms=time_ms("until"),
        states=tuple(map(LetterState, texts("state"))),
        ids=frozenset(map(_id, texts("id"))),
    )
    if not texts("where"):
        return selection
    from kafka_redelivery.dead_letters.where.where import Where  # noqa: PLC0415 - it takes a tenth of a second

    return replace(selection, where=Where.of(texts("where")[0], now_ms))


def unknown_ids(index: Index, selection: Selection) -> tuple[str, ...]:
    """Return the ids of a selection that are neither of a letter of the group nor of its source record, sorted.

    They are mistyped, or those of letters that were deleted or are another group's.

    Raises:
        IndexUnusableError: the index cannot tell.
    """
    if not selection.ids:
        return ()
    ids, ours = list(selection.ids), index.ours
    rows = index.rows(
        f"""
        SELECT id, source_id FROM stored_letters
        WHERE {ours.sql} AND (id IN (SELECT unnest(?::VARCHAR[])) OR source_id IN (SELECT unnest(?::VARCHAR[])))
        """,  # noqa: S608 - the condition is compiled
        (*ours.parameters, ids, ids),
    )
    return tuple(sorted(selection.ids.difference(chain.from_iterable(rows))))


def _id(text: str) -> str:
    try:
        parse_message_id(text)
    except ValueError:
        raise OptionError("id", f"{text[:300]!r} is not TOPIC-PARTITION@OFFSET") from None
    return text


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise OptionError("header", f"{text!r} is not NAME=VALUE")
    return name, value
