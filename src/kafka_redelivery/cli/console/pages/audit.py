"""Who did what, when, and to which letters."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console

_PAGE: Final = 100


async def show(console: Console, request: Request) -> Response:
    """Show the audit trail."""
    return await console.in_thread(_show, console, request)


def _show(console: Console, request: Request) -> Response:
    jobs = console.jobs.value
    by = request.query_params.get("by", "").strip()
    what = request.query_params.get("what", "").strip()
    entries = [] if jobs is None else jobs.trail
    kinds = sorted({each.what for each in entries})
    found = [each for each in entries if by.lower() in each.by.lower() and what in ("", each.what)]
    text = request.query_params.get("page", "")
    number = max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 8 else 1  # noqa: PLR2004
    return console.page(
        request,
        "audit.html",
        known=jobs is not None,
        entries=found[(number - 1) * _PAGE : number * _PAGE],
        total=len(found),
        number=number,
        pages=max(1, -(-len(found) // _PAGE)),
        by=by,
        what=what,
        kinds=kinds,
    )
