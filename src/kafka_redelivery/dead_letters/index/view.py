"""The table ``letters``: its columns are those of ``dead_letters/where/columns.py``, and some more for lists.

The table ``stored_letters`` is the same without :data:`STANDING`, and so without a join with where letters stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kafka_redelivery.dead_letters.index.files import Slot
from kafka_redelivery.dead_letters.index.rows import SCHEMA
from kafka_redelivery.dead_letters.standing import LetterState
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, ORIG_QUEUE

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
    # a table of the slots, a query takes half as long. Rows of slots that are gone stay in the files for a while: those
    # with a higher number have no topic, and those with a lower one are left out, because an index below one counts
    # from the end.
    first = min((each.number for each in slots), default=0)
    known = {each.number: each for each in slots}
    every = [known.get(number) for number in range(first, max(known, default=first) + 1)]

    def of_slot(values: Sequence[str]) -> str:
        return f"[{', '.join(values)}][slot - {first} + 1]"

    topics = of_slot(["NULL" if each is None else quoted(each.topic) for each in every])
    partitions = of_slot(["NULL" if each is None else str(each.partition) for each in every])
    starts = of_slot(["NULL" if each is None else f"{each.start}::BIGINT" for each in every])
    return f"""
        SELECT {topics}::VARCHAR || '-' || {partitions}::INTEGER || '@' || "offset" AS id,
               {topics}::VARCHAR AS topic, {partitions}::INTEGER AS partition, "offset",
               epoch_ms(greatest(0, least(died_ms, {LATEST_MS}))) AS died,
               "group", origin, source_id, attempts, nullif(reason, '') AS reason, nullif(exception, '') AS exception,
               nullif(message, '') AS message, fingerprint,
               CASE WHEN expiration_ms > 0 THEN epoch_ms(least(expiration_ms, {LATEST_MS})) END AS expires,
               key,
               {_OUR_HEADERS if ours else "map(header_names, header_values)"} AS headers,
               value, size, died_ms, expiration_ms, redrives, deliveries, raw_key, source_topic, no_content, slot
               {", chosen" if chosen else ""}
        FROM {letters}
        WHERE slot >= {first} AND "offset" >= {starts}
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
    return _empty({"slot": "INTEGER", "offset": "BIGINT", "state": "VARCHAR", "job": "VARCHAR", "sends": "INTEGER"})


def _empty(columns: Mapping[str, str]) -> str:
    return "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in columns.items()) + " WHERE false"
