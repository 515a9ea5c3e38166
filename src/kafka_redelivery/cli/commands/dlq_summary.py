"""`redelivery dlq summary`: which kinds of dead letters there are."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_redelivery.cli.commands.dlq_index import refreshed_index
from kafka_redelivery.cli.commands.dlq_running import load_quietly
from kafka_redelivery.cli.commands.dlq_selection import IndexFolder, OfGroup, selecting
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides
from kafka_redelivery.cli.output import print_json, print_table, stdout
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.summary_columns import DEFAULT_BY, By

Columns = Annotated[
    list[By] | None,
    typer.Option("--by", help="Group by this; repeatable. Default: origin, reason and fingerprint."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Print this many kinds at most.")]


@selecting
def summary(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    *,
    wanted: Selection,
    of_group: OfGroup = None,
    by: Columns = None,
    limit: Limit = 50,
    index: IndexFolder = None,
    as_json: AsJson = False,
) -> None:
    """Summarise dead letters by kind of failure: how many, since when, the trend, and how many recovered when sent."""
    from kafka_redelivery.cli.views.dlq import left_out
    from kafka_redelivery.cli.views.dlq_summary import summary_document, summary_table

    settings = load_quietly(config, overrides)
    columns = tuple(dict.fromkeys(by or DEFAULT_BY))
    with refreshed_index(settings, of_group or settings.group, index, wanted, config.absolute().parent) as opened:
        found = opened.summary(columns, opened.condition(wanted))
    if as_json:
        print_json({"ok": True, **summary_document(found, limit)})
        return
    if found.rows:
        print_table(stdout(), summary_table(found, columns, limit))
    more = f"; {len(found.rows) - limit} more kinds (--limit)" if len(found.rows) > limit else ""
    stdout().print(f"{found.letters} dead letters{left_out(found.expired, found.others, found.unreadable)}{more}")
