"""Logging in with a token, and out; and the stream of events that keeps pages current while someone is logged in."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from anyio import sleep
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import COOKIE, TokenLogin, peer_of
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.requests import form_of, go_to, refuse_forged, text_of, visitor_of

_FORM_BYTES: Final = 64 * 2**10
_FAILED_S: Final = 0.5
"""An attempt with a wrong token takes so long."""

_LOOK_S: Final = 5.0


def show(console: Console, request: Request) -> Response:
    """Show the form."""
    if not console.authentication.logs_in:
        return go_to("/")
    return console.page(request, "login.html", next=_own(request.query_params.get("next", "/")), wrong=False)


async def log_in(console: Console, request: Request) -> Response:
    """Begin a session."""
    login, peer = _login(console), peer_of(request.client.host) if request.client else ""
    _refuse_guessing(login, peer)
    form = await form_of(request, most_bytes=_FORM_BYTES, most_fields=5)
    _refuse_guessing(login, peer)  # others may have come meanwhile
    address = _own(text_of(form, "next"))
    session = login.log_in(text_of(form, "token"))
    if session is None:
        login.wrong_tokens.add(peer)
        await sleep(_FAILED_S)
        return console.page(request, "login.html", HTTPStatus.UNAUTHORIZED, next=address, wrong=True)
    response = go_to(address)
    # Behind a proxy with TLS only the browser knows that it came by https.
    encrypted = "https" in {request.url.scheme, urlsplit(request.headers.get("origin", "")).scheme}
    response.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=encrypted)
    return response


def _refuse_guessing(login: TokenLogin, peer: str) -> None:
    wait_s = login.wrong_tokens.wait_s(peer)
    if wait_s:
        problem = f"too many wrong tokens came from {peer}; try again in {math.ceil(wait_s)} s"
        raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, problem)


async def log_out(console: Console, request: Request) -> Response:
    """End the session."""
    login = _login(console)
    form = await form_of(request, most_bytes=_FORM_BYTES, most_fields=5)
    refuse_forged(visitor_of(request), form, request)
    login.log_out(request)
    response = go_to("/login")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _login(console: Console) -> TokenLogin:
    if not isinstance(console.authentication, TokenLogin):
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is nothing to log in to")
    return console.authentication


def _own(address: str) -> str:
    """Return an address of this console, whatever was given."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "/"
    own = address.startswith("/") and not address.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return address if own and address.isprintable() else "/"


async def stream(console: Console, request: Request) -> Response:
    """Send events as long as the page is open and its user is known, first those since the page was made."""

    async def banner() -> dict[str, str]:
        return {"banner": await console.in_thread(console.rendering.text, "parts/banner.html", **console.frame())}

    response = console.broadcast.stream(request.query_params.get("seen", "")[:1000], banner)
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
