"""`redelivery find`: where a record is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text, stderr
from kafka_redelivery.consumers.operations import find as operations
from kafka_redelivery.consumers.operations.find import Found, Search, State, Wanted
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.printable import printable_line, printable_time


def find(
    record: Annotated[
        str, typer.Argument(metavar="KEY-OR-ID", help="A key, or TOPIC-PARTITION@OFFSET of a source record.")
    ] = "",
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    header: Annotated[
        str, typer.Option("--header", metavar="NAME=VALUE", help="Records with this header, instead of a key or an id.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Read at most this many records of each kind of topic.")
    ] = 200_000,
    as_json: AsJson = False,
) -> None:
    """Say where a record is: in its source, a handler, a tier, a ready topic or a dead-letter topic, or finished.

    Of a record that waits it also says when it is due. No topic but the source has the key of a finished record, so
    its newest records are searched, too; what was not looked at is named. Exit code 1 if nothing is found.
    """
    from kafka_redelivery.cli.progress import progress

    settings = load(config, overrides)
    with progress(stderr(), "reading records") as report:
        search = operations.find(settings, Wanted.of(settings, record, header), limit, report)
    found = any(each.state is not State.UNKNOWN for each in search.found)
    if as_json:
        print_json({"ok": found, **search_document(search)})
    else:
        for line in lines(search, record or header):
            print_text(printable_line(line))
        for each in search.unread:
            stderr().print(each, style="yellow")
    if not found:
        raise typer.Exit(exit_codes.FAILED)


TEXTS: Final = {
    State.SOURCE: "not finished in its source: it waits for a delivery, or is in a handler",
    State.HANDLER: "in a handler, or it was when its worker died",
    State.TIER: "waits in a tier",
    State.READY: "ready: it waits for its redelivery, or is in a handler",
    State.DEAD_LETTER: "a dead letter",
    State.DONE: "done",
    State.FINISHED: "finished in its source, and in no tier, ready topic or dead-letter topic",
    State.UNKNOWN: "not found",
}


def lines(search: Search, wanted: str) -> Iterator[str]:
    """Yield a line for each place."""
    for each in search.found:
        yield f"{each.message_id or wanted}: {', '.join(_parts(each))}"


def search_document(search: Search) -> dict[str, Any]:
    """Return the same as a JSON document."""
    return {
        "found": [
            {
                "id": each.message_id or None,
                "state": str(each.state),
                "location": each.location or None,
                "deliveries": each.deliveries,
                "dueMs": each.due_ms,
                "cause": each.cause or None,
                "writtenMs": each.written_ms,
            }
            for each in search.found
        ],
        "unread": list(search.unread),
    }


def _parts(each: Found) -> Iterator[str]:
    yield TEXTS[each.state]
    if each.location and each.location != each.message_id:
        yield f"at {each.location}"
    if each.written_ms is not None:
        yield f"written {printable_time(each.written_ms)}"
    if each.due_ms is not None:
        yield f"due {printable_time(each.due_ms)}"
    if each.deliveries is not None:
        yield f"delivered {each.deliveries} times" if each.deliveries != 1 else "delivered once"
    if each.cause:
        yield each.cause
