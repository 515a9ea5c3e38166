"""The table ``letters``: its columns are those of ``topology/query/columns.py``, and some more for lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_redelivery.consumers.index.rows import SCHEMA
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.redrive.standing import LetterState
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, ORIG_QUEUE

IN_COLUMNS: Final = {
    ORIG_ADDRESS: "origin",
    ORIG_QUEUE: '"group"',
    ORIG_MESSAGE_ID: "source_id",
    DELIVERY_COUNT: "deliveries",
}
"""Headers that are stored as columns alone. The map has those that a letter lacks, too, with NULL."""

_OUR_NAMES: Final = ", ".join(f"'{name}'" for name in IN_COLUMNS)
_OUR_VALUES: Final = ", ".join(IN_COLUMNS.values())


def letters_view(letters: str, standings: str) -> str:
    """Return the query of the table, from SQL expressions for stored letters, and for standings."""
    # The texts are constants of ours and names of files.
    return f"""
        SELECT slots.topic || '-' || slots.partition || '@' || stored."offset" AS id,
               slots.topic, slots.partition, stored."offset",
               epoch_ms(greatest(0, least(died_ms, {LATEST_MS}))) AS died,
               "group", origin, source_id, attempts, nullif(reason, '') AS reason, nullif(exception, '') AS exception,
               nullif(message, '') AS message, fingerprint,
               CASE WHEN expiration_ms > 0 THEN epoch_ms(least(expiration_ms, {LATEST_MS})) END AS expires,
               key,
               map([{_OUR_NAMES}] || header_names, [{_OUR_VALUES}] || header_values) AS headers,
               value, size,
               coalesce(standings.state, '{LetterState.WAITING}') AS state, standings.job,
               coalesce(standings.sends, 0) AS sends,
               died_ms, expiration_ms, redrives, deliveries, raw_key, source_topic
        FROM {letters} AS stored
        JOIN slots USING (slot)
        LEFT JOIN {standings} AS standings ON standings.slot = stored.slot AND standings."offset" = stored."offset"
        WHERE stored."offset" >= slots.start
    """  # noqa: S608


def empty_letters() -> str:
    """Return a query for no letters."""
    return _empty(SCHEMA)


def empty_standings() -> str:
    """Return a query for no standings."""
    return _empty({"slot": "INTEGER", "offset": "BIGINT", "state": "VARCHAR", "job": "VARCHAR", "sends": "INTEGER"})


def _empty(columns: Mapping[str, str]) -> str:
    return "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in columns.items()) + " WHERE false"
