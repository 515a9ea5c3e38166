"""What differs between two letters."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.letter_reading import shown_of
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.pages.letter import row_of
from kafka_redelivery.cli.console.questions import one
from kafka_redelivery.cli.views.dlq_diff import changes
from kafka_redelivery.cli.views.dlq_show import Shown, content_document
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.index.index import LetterRow
from kafka_redelivery.dead_letters.letter_jobs import predecessor
from kafka_redelivery.topology.printable import printable_json

_SHOWN = 500


async def show(console: Console, request: Request) -> Response:
    """Compare two letters."""
    return await console.read_in_turn(console.letter_turns, _show, console, request)


def _show(console: Console, request: Request) -> Response:
    if console.options.hide_payloads:
        raise HTTPException(HTTPStatus.FORBIDDEN, "payloads are hidden here, so that letters are not compared")
    row = row_of(console, request)
    other = request.query_params.get("with", "").strip()[:400]
    found, fault = None, ""
    try:
        after = _shown(console, row)
        if other == "previous":
            other = _previous(console, after)
        before_row = one(console.letters, other)
        if before_row is None:
            raise RedriveError(f"there is no dead letter {other!r} of this group; copy the id of one")
        before = _shown(console, before_row)
        found = [
            {"path": each["path"], **{side: _text(each[side]) for side in ("before", "after") if side in each}}
            for each in changes(content_document(before), content_document(after))
        ]
    except LIBRARY_ERRORS as error:
        fault = str(error)
    return console.page(request, "compare.html", row=row, other=other, found=found, shown=_SHOWN, fault=fault)


def _shown(console: Console, row: LetterRow) -> Shown:
    return shown_of(console.settings, console.base, console.read_letter(row))


def _previous(console: Console, shown: Shown) -> str:
    found = console.book.ask(lambda ledger: predecessor(ledger, shown.found.letter))
    if found is None:
        raise RedriveError(f"{shown.found.letter.id} was not sent again before it died; name another letter")
    return found


def _text(value: object) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False, indent=2))
