"""One dead letter: its value, headers and bytes, its story, and what differs from another one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letter_reading import shown_of
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.questions import one
from kafka_redelivery.cli.console.value_tree import Node, tree_of
from kafka_redelivery.cli.views.dlq_show import Shown, headers_document
from kafka_redelivery.cli.views.values import hex_dump
from kafka_redelivery.dead_letters.index.index import LetterRow
from kafka_redelivery.dead_letters.letter_jobs import LetterJobs
from kafka_redelivery.dead_letters.story import Event, story
from kafka_redelivery.topology.wire.headers import OURS

_DUMPED: Final = 64 * 2**10
"""Bytes that are shown as hex digits."""

_STORY_S: Final = 15.0
"""How long the story of a letter is read; the rest of it is then not known."""


async def show(console: Console, request: Request) -> Response:
    """Show a letter."""
    return await console.read_in_turn(console.letter_turns, _show, console, request)


async def show_facts(console: Console, request: Request) -> Response:
    """Show what the index says of a letter, which may have changed."""

    def facts() -> Response:
        return console.page(request, "parts/facts.html", row=row_of(console, request))

    return await console.in_thread(facts)


async def show_story(console: Console, request: Request) -> Response:
    """Show the story of a letter. It takes more requests, so that the page asks for it by itself."""
    return await console.read_in_turn(console.story_turns, _show_story, console, request)


async def raw(console: Console, request: Request) -> Response:
    """Return the bytes of a value, to be saved."""
    return await console.read_in_turn(console.letter_turns, _raw, console, request)


def row_of(console: Console, request: Request) -> LetterRow:
    """Return what the index says of the letter that an address names.

    Raises:
        HTTPException: there is none.
    """
    name = request.path_params["name"]
    row = one(console.letters, name)
    if row is None:
        raise HTTPException(
            HTTPStatus.NOT_FOUND,
            f"there is no dead letter {name} of group {console.settings.group} (any more); it may have been purged, or "
            "its topic's retention has deleted it",
        )
    return row


def _show(console: Console, request: Request) -> Response:
    row = row_of(console, request)
    content: dict[str, Any] = {"shown": None, "problem_of_letter": ""}
    if not console.options.hide_payloads:
        try:
            shown = shown_of(console.settings, console.base, console.read_letter(row))
        except LIBRARY_ERRORS as error:
            content["problem_of_letter"] = str(error)
        else:
            content |= _content(shown)
    return console.page(request, "letter.html", row=row, **content)


def _content(shown: Shown) -> dict[str, Any]:
    headers = headers_document(shown)
    value = shown.found.message.value()
    key = None if shown.hides_key else shown.found.letter.key
    return {
        "shown": shown,
        "headers": {name: text for name, text in headers.items() if name not in OURS},
        "our_headers": {name: text for name, text in headers.items() if name in OURS},
        "value": _side(shown.value.value),
        "key": None if key is None else _side(shown.key.value),
        "value_bytes": None if value is None else len(value),
        "key_bytes": None if key is None else len(key),
        "value_hex": list(hex_dump(value[:_DUMPED], full=True)) if value else [],
        "key_hex": list(hex_dump(key[:_DUMPED], full=True)) if key else [],
    }


def _side(value: object) -> Node:
    return tree_of(value)


def _show_story(console: Console, request: Request) -> Response:
    events: list[Event] = []
    fault = ""
    try:
        row = row_of(console, request)
        found = console.read_letter(row)
        jobs = console.book.ask(lambda ledger: LetterJobs.of(ledger, found.letter))
        events = story(console.settings, jobs, found, within_s=_STORY_S)
    except LIBRARY_ERRORS as error:
        fault = str(error)
    return console.page(request, "parts/story.html", events=events, fault=fault)


def _raw(console: Console, request: Request) -> Response:
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here")
    found = console.read_letter(row_of(console, request))
    data = found.message.value() or b""
    headers = {"Content-Disposition": 'attachment; filename="letter.bin"'}
    return Response(data, headers=headers, media_type="application/octet-stream")
