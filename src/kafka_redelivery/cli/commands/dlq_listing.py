"""What `redelivery dlq list` lists: from the index, or from all letters where there is none that can tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_redelivery.cli.commands.dlq_index import can_index, refreshed_index
from kafka_redelivery.cli.output import stderr
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.config.settings import Settings

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index


class Listing(NamedTuple):
    """Letters that are meant, as plain data for JSON."""

    letters: int
    kinds: list[dict[str, Any]]
    each: list[dict[str, Any]]
    expired: int
    others: int
    unreadable: int
    """Records that name no group."""


def listing(settings: Settings, group: str, wanted: Selection, limit: int, folder: Path | None, base: Path) -> Listing:
    """Count letters by kind.

    Args:
        settings: the configuration.
        group: whose letters.
        wanted: which of them.
        limit: how many to return in addition.
        folder: where to keep the index.
        base: the folder of the configuration.
    """
    from kafka_redelivery.consumers.errors import IndexUnusableError

    if not can_index(settings):
        return _read(settings, group, wanted, limit, base)
    try:
        with refreshed_index(settings, group, folder) as index:
            found = _asked(index, group, wanted, limit)
    except IndexUnusableError as error:
        stderr().print(f"without an index all dead letters are read: {error}")
        found = None
    return found or _read(settings, group, wanted, limit, base)


def _asked(index: Index, group: str, wanted: Selection, limit: int) -> Listing | None:
    from kafka_redelivery.cli.views.dlq_summary import row_document
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.index.selecting import of_group, unexpired
    from kafka_redelivery.dead_letters.summary_columns import By

    meant = index.condition(wanted)
    if meant is None:
        return None
    by = (By.ORIGIN, By.REASON, By.EXCEPTION, By.STATE)
    summary = index.summary(by, meant)
    kinds = [
        {
            **{each.value: row.kind[each] or "" for each in by},
            "letters": row.letters,
            "oldestMs": row.first_ms,
            "newestMs": row.last_ms,
        }
        for row in summary.rows
    ]
    shown = of_group(group) & meant & unexpired(wall_clock_ms())
    rows = index.select(shown.sql, shown.parameters, limit=limit) if limit else []
    each = [row_document(row) for row in rows]
    return Listing(summary.letters, kinds, each, summary.expired, summary.others, summary.unreadable)


def _read(settings: Settings, group: str, wanted: Selection, limit: int, base: Path) -> Listing:
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import Kinds, letter_document
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.ledger import Ledger
    from kafka_redelivery.dead_letters.meant import meant
    from kafka_redelivery.dead_letters.reading import StoredLetter, dead_letters
    from kafka_redelivery.topology.wire.expiry import has_expired

    kinds, expired, others, unreadable = Kinds(), 0, 0, 0
    shown: list[StoredLetter] = []

    def ours() -> Iterator[StoredLetter]:
        nonlocal others, unreadable
        for found in dead_letters(settings, ledger, report_progress):
            if ledger.has(found.letter):
                yield found
            elif found.letter.group:
                others += 1
            else:
                unreadable += 1

    with progress(stderr(), "reading dead letters") as report_progress:
        ledger = Ledger(settings, group)
        now_ms = wall_clock_ms()
        for found in meant(ours(), wanted, settings, base):
            if has_expired(found.letter.expiration_ms, now_ms):
                expired += 1
                continue
            kinds.add(found)
            if len(shown) < limit:
                shown.append(found)
    each = [letter_document(found) for found in shown]
    return Listing(kinds.counts.total(), kinds.document(), each, expired, others, unreadable)
