"""The stream of events that keeps pages current."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console

_LOOK_S = 5.0


_OWN_CONTENT = frozenset({"banner", "flow"})
"""Events that bring what is shown; the flow is sent every two seconds."""


async def stream(console: Console, request: Request) -> Response:
    """Send events as long as the page is open and its user is known, first those since the page was made."""
    missed = console.broadcast.missed(request.query_params.get("seen", "")[:1000])
    first = {event: text for event, text in missed.items() if event not in _OWN_CONTENT}
    first["banner"] = await console.in_thread(console.rendering.text, "parts/banner.html", **console.frame())
    response = console.broadcast.stream(first)
    body = response.body_iterator

    async def looking() -> None:
        while True:
            console.look()
            await asyncio.sleep(_LOOK_S)

    async def events() -> AsyncIterator[str | bytes | memoryview]:
        look = asyncio.create_task(looking())
        try:
            async for each in body:
                if console.authentication.visitor(request) is None:  # the session has ended
                    return
                yield each
        finally:
            look.cancel()

    response.body_iterator = events()
    return response
