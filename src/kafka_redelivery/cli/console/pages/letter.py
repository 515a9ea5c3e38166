"""One dead letter: its value, headers and bytes, its story, and what differs from another one."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, one
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.decoding import LetterCodecs
from kafka_redelivery.dead_letters.differences import changes
from kafka_redelivery.dead_letters.index.index import LetterRow
from kafka_redelivery.dead_letters.letter_jobs import LetterJobs
from kafka_redelivery.dead_letters.showing import Shown, content_document, headers_document, previous, shown_of
from kafka_redelivery.dead_letters.story import Event, story
from kafka_redelivery.serdes.plain import hex_dump, plain
from kafka_redelivery.topology.printable import printable, printable_json, printable_line
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT, OURS, trace_id_of

_OURS: Final = OURS | {LAST_ATTEMPT}

_DUMPED: Final = 64 * 2**10
"""Bytes that are shown as hex digits."""

_STORY_S: Final = 15.0
"""How long the story of a letter is read; the rest of it is then not known."""

_CHANGES: Final = 500
"""Differences that are shown."""

_NODES: Final = 2000
"""Nodes of a tree at most, so that a page stays small."""

_CHARS: Final = 20_000
"""Characters of a text at most."""

_DEEP: Final = 60
"""Levels that are shown."""


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


def show(console: Console, request: Request) -> Response:
    """Show a letter."""
    row = row_of(console, request)
    content: dict[str, Any] = {"shown": None, "frames": (), "trace_id": "", "problem_of_letter": ""}
    if not console.options.hide_payloads:
        try:
            shown = _shown(console, _codecs(console), row)
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
        "frames": shown.frames,
        "trace_id": trace_id_of(shown.found.letter.headers),
        "headers": {name: text for name, text in headers.items() if name not in _OURS},
        "our_headers": {name: text for name, text in headers.items() if name in _OURS},
        "value": tree_of(shown.value.value),
        "key": None if key is None else tree_of(shown.key.value),
        "value_bytes": None if value is None else len(value),
        "key_bytes": None if key is None else len(key),
        "value_hex": list(hex_dump(value[:_DUMPED], full=True)) if value else [],
        "key_hex": list(hex_dump(key[:_DUMPED], full=True)) if key else [],
    }


def show_story(console: Console, request: Request) -> Response:
    """Show the story of a letter. It takes more requests, so that the page asks for it by itself."""
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


def raw(console: Console, request: Request) -> Response:
    """Return the bytes of a value, to be saved."""
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here")
    found = console.read_letter(row_of(console, request))
    data = found.message.value() or b""
    headers = {"Content-Disposition": 'attachment; filename="letter.bin"'}
    return Response(data, headers=headers, media_type="application/octet-stream")


def show_facts(console: Console, request: Request) -> Response:
    """Show what the index says of a letter, which may have changed."""
    return console.page(request, "parts/facts.html", row=row_of(console, request))


def compare(console: Console, request: Request) -> Response:
    """Show what differs between two letters."""
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that letters are not compared")
    row = row_of(console, request)
    other = request.query_params.get("with", "").strip()[:400]
    found, fault, decodes = None, "", _codecs(console)
    try:
        after = _shown(console, decodes, row)
        if other == "previous":
            letter = after.found.letter
            other = console.book.ask(lambda ledger: previous(ledger, letter))
        before_row = one(console.letters, other)
        if before_row is None:
            raise RedriveError(f"there is no dead letter {other!r} of this group; copy the id of one")
        before = _shown(console, decodes, before_row)
        found = [
            {"path": each["path"], **{side: _text(each[side]) for side in ("before", "after") if side in each}}
            for each in changes(content_document(before), content_document(after))
        ]
    except LIBRARY_ERRORS as error:
        fault = str(error)
    return console.page(request, "compare.html", row=row, other=other, found=found, shown=_CHANGES, fault=fault)


def _codecs(console: Console) -> LetterCodecs:
    return LetterCodecs(console.settings, console.base)


def _shown(console: Console, decodes: LetterCodecs, row: LetterRow) -> Shown:
    return shown_of(console.settings, decodes, console.read_letter(row))


def _text(value: object) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False, indent=2))


class Node(NamedTuple):
    """A value, and what it consists of."""

    name: str
    kind: str
    """``object``, ``array``, ``text``, ``number``, ``boolean``, ``null``, ``bytes`` or ``more``."""

    text: str
    children: tuple[Node, ...] = ()


def tree_of(value: object) -> Node:
    """Return a decoded value as a tree. What is too large is cut, and says so."""
    return _Trees().node("", value, 0)


class _Trees:
    def __init__(self) -> None:
        self._left = _NODES

    def node(self, name: str, value: object, level: int) -> Node:
        self._left -= 1
        shown = printable_line(name)
        match value:
            case Mapping():
                names = [(str(each), item) for each, item in value.items()]
                return Node(shown, "object", _count(len(names), "field"), self._children(names, level))
            case list() | tuple():
                items = [(str(number), item) for number, item in enumerate(value)]
                return Node(shown, "array", _count(len(items), "item"), self._children(items, level))
            case bytes() | bytearray():
                return Node(shown, "bytes", _cut(base64.b64encode(value).decode()))
            case str():
                return Node(shown, "text", _cut(printable(value)))
            case bool():
                return Node(shown, "boolean", "true" if value else "false")
            case None:
                return Node(shown, "null", "null")
            case int() | float():
                return Node(shown, "number", _cut(json.dumps(plain(value))))
            case _:
                return Node(shown, "text", _cut(printable(str(plain(value)))))

    def _children(self, items: list[tuple[str, object]], level: int) -> tuple[Node, ...]:
        if level >= _DEEP:
            return (Node("", "more", "nested deeper than is shown here"),) if items else ()
        found: list[Node] = []
        for number, (name, item) in enumerate(items):
            if self._left <= 0:
                found.append(Node("", "more", f"{len(items) - number} more; save the bytes to see all"))
                break
            found.append(self.node(name, item, level + 1))
        return tuple(found)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]}… ({len(text) - _CHARS} more characters)"
