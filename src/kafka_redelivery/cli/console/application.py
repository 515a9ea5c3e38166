"""The ASGI application of the console: its addresses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.guard import Guard
from kafka_redelivery.cli.console.job_book import JobsNotReadError
from kafka_redelivery.cli.console.letters import NoIndexYetError
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.pages import (
    audit,
    compare,
    edit,
    events,
    export,
    failures,
    flow,
    jobs,
    letter,
    letter_list,
    login,
    purge,
    search,
    send,
    tasks,
    topology,
    waiting,
)
from kafka_redelivery.cli.console.requests import Page
from kafka_redelivery.transport.errors import TransportError

_log = logging.getLogger(__name__)

_POST = ("POST",)
_SHOWN_AFTER: Final[Mapping[type[Exception], str]] = {NoIndexYetError: "letters", JobsNotReadError: "jobs"}
"""The event after which a page that needs what has not been read yet is asked for again."""


def application(console: Console, hosts: Container[str] | None) -> Guard:
    """Return the application.

    Args:
        console: what the pages show.
        hosts: the names by which it may be called; ``None`` = any.
    """

    def page(address: str, show: Page, methods: tuple[str, ...] = ("GET",)) -> Route:
        async def endpoint(request: Request) -> Response:
            console.look()
            request.state.seen = console.broadcast.seen  # before the page is made
            return await show(console, request)

        return Route(address, endpoint, methods=list(methods))

    def icon(_: Request) -> Response:
        return Response(console.assets["mark.svg"].content, media_type="image/svg+xml")

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
        Route("/favicon.svg", icon),
        Route("/favicon.ico", icon),  # browsers ask for it where no page names another
        page("/login", login.show),
        page("/login", login.log_in, _POST),
        page("/logout", login.log_out, _POST),
        page("/events", events.stream),
        page("/", flow.show),
        page("/failures", failures.show),
        page("/letters", letter_list.show),
        page("/letters/{name}", letter.show),
        page("/letters/{name}/facts", letter.show_facts),
        page("/letters/{name}/story", letter.show_story),
        page("/letters/{name}/raw", letter.raw),
        page("/letters/{name}/compare", compare.show),
        page("/letters/{name}/edit", edit.show),
        page("/letters/{name}/edit", edit.edit, _POST),
        page("/redrive", send.show_redrive),
        page("/redrive", send.redrive, _POST),
        page("/discard", send.show_discard),
        page("/discard", send.discard, _POST),
        page("/export", export.show),
        page("/export", export.export, _POST),
        page("/purge", purge.show),
        page("/purge", purge.purge, _POST),
        page("/tasks/{task}", tasks.show),
        page("/tasks/{task}", tasks.answer, _POST),
        page("/jobs", jobs.show),
        page("/jobs/{job}", jobs.show_one),
        page("/jobs/{job}/cancel", jobs.cancel, _POST),
        page("/jobs/{job}/resume", jobs.resume, _POST),
        page("/waiting", waiting.show),
        page("/topology", topology.show),
        page("/topology/refresh", topology.refresh, _POST),
        page("/pauses", topology.pause, _POST),
        page("/pauses/resume", topology.resume, _POST),
        page("/audit", audit.show),
        page("/search", search.find),
    ]
    handlers: dict[type[Exception] | int, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _http_error(console),
        **dict.fromkeys(LIBRARY_ERRORS, _library_error(console)),
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


def _library_error(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Show what the library says for people: what happened, and how to fix it.

    A page that needs what has not been read yet is shown as soon as that is there.
    """

    async def respond(request: Request, error: Exception) -> Response:
        later = isinstance(error, NoIndexYetError | TransportError)
        status = HTTPStatus.SERVICE_UNAVAILABLE if later else HTTPStatus.CONFLICT
        title = "Not possible now" if later else "Not possible"
        event = _SHOWN_AFTER.get(type(error)) if request.method == "GET" else None
        again = {"again": _address(request), "event": event} if event else {}
        return await console.in_thread(
            console.page, request, "error.html", status, title=title, message=str(error), **again
        )

    return respond


def _address(request: Request) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    return quote(request.scope["path"], safe="/@") + query


def _any_error(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        _log.error("%s %s", request.method, request.url.path, exc_info=error)
        return await console.in_thread(
            console.page, request, "error.html", 500, title="Internal error", message=f"{type(error).__name__}: {error}"
        )

    return respond
