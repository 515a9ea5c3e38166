"""The letters of a selection, page by page."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.questions import answered, listed
from kafka_redelivery.cli.console.selection_form import chosen
from kafka_redelivery.dead_letters.standing import LetterState

PAGE: Final = 50
_LAST: Final = 100_000_000
"""More pages than any list has."""


async def show(console: Console, request: Request) -> Response:
    """Show a page of letters."""
    return await console.in_thread(_show, console, request)


def _show(console: Console, request: Request) -> Response:
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads)
    number = _page(request.query_params.get("page", ""))
    oldest = request.query_params.get("order") == "oldest"
    found, fault = answered(wanted, lambda: listed(console.letters, wanted, (number - 1) * PAGE, PAGE, oldest=oldest))
    return console.page(
        request,
        "letters.html",
        200 if not wanted.faults else 400,
        wanted=wanted,
        listed=found,
        number=number,
        pages=1 if found is None else max(1, -(-found.total // PAGE)),
        size=PAGE,
        oldest=oldest,
        fault=fault,
        states=list(LetterState),
    )


def _page(text: str) -> int:
    return min(_LAST, max(1, int(text))) if text.isascii() and text.isdigit() and len(text) < 10 else 1  # noqa: PLR2004
