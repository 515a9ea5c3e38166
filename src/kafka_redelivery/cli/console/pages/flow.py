"""The first page: what moves, what waits and what is stuck."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console


async def show(console: Console, request: Request) -> Response:
    """Show the flow of the group."""
    return await console.in_thread(_show, console, request)


def _show(console: Console, request: Request) -> Response:
    return console.page(request, "flow.html", flow=console.flow.value, kept=console.kept())
