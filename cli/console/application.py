"""The ASGI application of the console: its addresses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.guard import Guard
from kafka_redelivery.cli.console.pages import events, failures, flow, letter, letter_list, login
from kafka_redelivery.cli.console.requests import Page

_log = logging.getLogger(__name__)


def application(console: Console, hosts: Container[str] | None) -> Guard:
    """Return the application.

    Args:
        console: what the pages show.
        hosts: the names by which it may be called; ``None`` = any.
    """

    def page(address: str, show: Page, methods: tuple[str, ...] = ("GET",)) -> Route:
        async def endpoint(request: Request) -> Response:
            console.look()
            return await show(console, request)

        return Route(address, endpoint, methods=list(methods))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        console.broadcast.attach()
        console.start()
        try:
            yield
        finally:
            await console.in_thread(console.stop)

    routes = [
        Route("/assets/{digest}/{name}", console.assets.serve),
        Route("/healthz", lambda _: PlainTextResponse("ok")),
        Route("/favicon.svg", lambda request: Response(console.assets["mark.svg"].content, media_type="image/svg+xml")),
        page("/login", login.show),
        page("/login", login.log_in, ("POST",)),
        page("/logout", login.log_out, ("POST",)),
        page("/events", events.stream),
        page("/", flow.show),
        page("/failures", failures.show),
        page("/letters", letter_list.show),
        page("/letters/{name}", letter.show),
    ]
    handlers: dict[type[Exception] | int, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _http_error(console),
        Exception: _any_error(console),
    }
    inner = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Guard(inner, console.authentication, hosts)


def _http_error(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls this for no other
        return await console.in_thread(
            console.page,
            request,
            "error.html",
            error.status_code,
            title=HTTPStatus(error.status_code).phrase,
            message=error.detail,
        )

    return respond


def _any_error(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        _log.error("%s %s", request.method, request.url.path, exc_info=error)
        return await console.in_thread(
            console.page, request, "error.html", 500, title="Internal error", message=f"{type(error).__name__}: {error}"
        )

    return respond
