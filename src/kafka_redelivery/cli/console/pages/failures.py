"""The failures: dead letters by what they have in common."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.questions import answered, summary
from kafka_redelivery.cli.console.selection_form import chosen
from kafka_redelivery.dead_letters.standing import LetterState

_SHOWN: Final = 100


async def show(console: Console, request: Request) -> Response:
    """Show groups of letters."""
    return await console.in_thread(_show, console, request)


def _show(console: Console, request: Request) -> Response:
    wanted = chosen(request.query_params, hide_payloads=console.options.hide_payloads)
    found, fault = answered(wanted, lambda: summary(console.letters, wanted))
    return console.page(
        request,
        "failures.html",
        200 if not wanted.faults else 400,
        wanted=wanted,
        summary=found,
        shown=_SHOWN,
        fault=fault,
        states=list(LetterState),
    )
