"""`redelivery find`: where a record is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text, stderr
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.operations import find as operations
from kafka_redelivery.consumers.operations.find import Found, Search, State, Wanted
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_line, printable_time
from kafka_redelivery.transport.errors import TransportError

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.letter import Standing


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

    Of a record that waits it also says when it is due, and of a dead letter what became of it. No topic but the source
    has the key of a finished record, so its newest records are searched, too; what was not looked at is named. Exit
    code 1 if nothing is found.
    """
    from kafka_redelivery.cli.progress import progress

    settings = load(config, overrides)
    with progress(stderr(), "reading records") as report:
        search = operations.find(settings, Wanted.of(settings, record, header), limit, report)
        search, standings = with_standings(settings, search)
    found = any(each.state is not State.UNKNOWN for each in search.found)
    if as_json:
        print_json({"ok": found, **search_document(search, standings)})
    else:
        for line in lines(search, record or header, standings):
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
    State.FINISHED: "finished: it waits nowhere and is no dead letter, so its handler has succeeded, unless it was "
    "discarded or its dead letter is deleted",
    State.UNKNOWN: "not found",
}


_STORIES: Final = {
    "waiting": "a dead letter",
    "in_job": "a dead letter, which job {} will send or discard",
    "sent": "a dead letter that job {} has sent again; its outcome is not known yet",
    "recovered": "recovered: its handler has succeeded after job {} had sent its dead letter again; it had died",
    "dead_again": "died again after job {} had sent its dead letter again",
    "discarded": "discarded by job {}: its dead letter",
    "expired": "expired after job {} had sent its dead letter again",
    "parked": "a dead letter that job {} has parked",
    "refused": "a dead letter that job {} could not send",
    "gone": "a dead letter that job {} did not find",
}
"""What became of a dead letter, by its state and with its job."""

_ENDED: Final = frozenset({"recovered", "discarded"})
"""States of dead letters whose records are no longer dead."""


def with_standings(settings: Settings, search: Search) -> tuple[Search, Mapping[str, Standing]]:
    """Return where the dead letters of a search stand, and the search without those after which the record died again.

    Without the topics of the jobs, or the right to read them, the search says that this is not known.
    """
    from kafka_redelivery.dead_letters.letter import LetterState
    from kafka_redelivery.dead_letters.letter_jobs import standings_of

    letters = [each for each in search.found if each.state is State.DEAD_LETTER]
    try:
        standings = standings_of(settings, [each.location for each in letters])
    except (ConsumersError, TransportError) as error:
        return replace(search, unread=(*search.unread, f"what became of dead letters: {error}")), {}
    last = {each.message_id: each for each in search.found}
    earlier = {
        each
        for each in letters
        if standings[each.location].state is LetterState.DEAD_AGAIN and last[each.message_id] is not each
    }
    return replace(search, found=tuple(each for each in search.found if each not in earlier)), standings


def lines(search: Search, wanted: str, standings: Mapping[str, Standing]) -> Iterator[str]:
    """Yield a line for each place."""
    for each in search.found:
        yield f"{each.message_id or wanted}: {', '.join(_parts(each, standings.get(each.location)))}"


def search_document(search: Search, standings: Mapping[str, Standing]) -> dict[str, Any]:
    """Return the same as a JSON document."""
    return {
        "found": [_document(each, standings.get(each.location)) for each in search.found],
        "unread": list(search.unread),
    }


def _document(found: Found, standing: Standing | None) -> dict[str, Any]:
    letter = None if standing is None else str(standing.state)
    return {
        "id": found.message_id or None,
        "state": letter if letter in _ENDED else str(found.state),
        "location": found.location or None,
        "deliveries": found.deliveries,
        "dueMs": found.due_ms,
        "cause": found.cause or None,
        "writtenMs": found.written_ms,
        "letterState": letter,
        "job": None if standing is None else standing.job,
    }


def _parts(each: Found, standing: Standing | None) -> Iterator[str]:
    yield TEXTS[each.state] if standing is None else _STORIES[standing.state].format(standing.job)
    if each.location and each.location != each.message_id:
        yield f"at {each.location}"
    if each.written_ms is not None:
        yield f"written {printable_time(each.written_ms)}"
    if each.due_ms is not None:
        yield f"due {printable_time(each.due_ms)}"
    if each.deliveries is not None:
        yield f"delivered {each.deliveries} times" if each.deliveries != 1 else "delivered once"
    if each.cause:
        yield each.cause.replace("\n", " ")
