"""What `redelivery dlq list` lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from kafka_redelivery.cli.commands.dlq_index import refreshed_index
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.config.settings import Settings


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
    from kafka_redelivery.cli.views.dlq_summary import row_document
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.index.selecting import unexpired
    from kafka_redelivery.dead_letters.summary_columns import By

    with refreshed_index(settings, group, folder, wanted, base) as index:
        meant = index.condition(wanted)
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
        shown = index.ours & meant & unexpired(wall_clock_ms())
        rows = index.select(shown.sql, shown.parameters, limit=limit) if limit else []
        each = [row_document(row) for row in rows]
        return Listing(summary.letters, kinds, each, summary.expired, summary.others, summary.unreadable)
