"""`redelivery find`: where a record is."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text, stderr
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.printable import printable_line


def find(
    record: Annotated[
        str, typer.Argument(metavar="KEY-OR-ID", help="A key, or TOPIC-PARTITION@OFFSET of a source record.")
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Read at most this many records of each kind of topic.")
    ] = 200_000,
    as_json: AsJson = False,
) -> None:
    """Say where a record is: in its source, a tier, a ready topic or a dead-letter topic, or finished.

    Of a record that waits it also says when it is due. Exit code 1 if it is not found.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.find import lines, search_document
    from kafka_redelivery.consumers.operations import find as operations

    settings = load(config, overrides)
    with progress(stderr(), "reading records") as report:
        search = operations.find(settings, record, limit, report)
    found = any(each.state is not operations.State.UNKNOWN for each in search.found)
    if as_json:
        print_json({"ok": found, **search_document(search)})
    else:
        for line in lines(search, record):
            print_text(printable_line(line))
        for each in search.unread:
            stderr().print(each, style="yellow")
    if not found:
        raise typer.Exit(exit_codes.FAILED)
