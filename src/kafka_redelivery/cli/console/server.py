"""Runs a console: its addresses, the port that it takes, and its end on a signal."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from inspect import iscoroutinefunction
from types import FrameType
from urllib.parse import quote

import uvicorn
from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kafka_redelivery.cli.console.connections import Connection
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.guard import AGAIN, Guard, led_here
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, NotReadYetError
from kafka_redelivery.cli.console.pages import edit, find, group, jobs, letter, letters, pauses, send, session, waiting
from kafka_redelivery.cli.console.requests import Page
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.errors import TransportError

_log = logging.getLogger(__name__)

_GRACE_S = 5
"""How long requests may take after a signal."""

_BACKLOG = 128


def listen(host: str, port: int, *, or_any: bool) -> socket.socket:
    """Return a socket that listens; on a free port if ``or_any`` and the wanted one is taken.

    Raises:
        OSError: it cannot listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port, 0) if or_any else (port,):
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it each answer waits 40 ms until the client has acknowledged its head.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            opened.bind((host, wanted))
        except OSError as error:
            opened.close()
            problem = error
        else:
            opened.listen(_BACKLOG)
            return opened
    raise OSError(f"{host}:{port}: {problem.strerror or problem}")


def serve(
    console: Console,
    opened: socket.socket,
    hosts: Container[str] | None,
    tls: ssl.SSLContext | None,
    *,
    proxied: bool,
) -> None:
    """Serve until SIGTERM or SIGINT; then jobs that run here end after their chunk."""
    _Server(configuration(application(console, hosts), tls, proxied=proxied), console).run([opened])
    if threading.active_count() > 1:
        # A thread waits for Kafka or asks the index, for an answer that is not needed any more. The end of the
        # interpreter would end it inside of a library, which then aborts the process. Jobs have stopped already.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(exit_codes.OK)


def configuration(app: Guard, tls: ssl.SSLContext | None, *, proxied: bool) -> uvicorn.Config:
    """Return how uvicorn serves an application. With ``proxied`` the connections of all users are those of a proxy."""
    return uvicorn.Config(
        app,
        http=partial(Connection, tls, proxied=proxied),  # type: ignore[arg-type] # it is called, and nothing else
        access_log=False,
        log_config=None,
        log_level="error",  # a warning is about a request that is none, and anyone can send a thousand of them
        proxy_headers=False,  # who asks is the peer, whatever a header says
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, which else never end, and then everything; at a second signal without waiting for requests.

        The signal is handled with that: the process ends with exit code 0.
        """
        del sig, frame
        self._console.broadcast.close()
        self.force_exit = self.should_exit
        self.should_exit = True


def application(console: Console, hosts: Container[str] | None) -> Guard:
    """Return the application.

    Args:
        console: what the pages show.
        hosts: the names by which it may be called; ``None`` = any.
    """

    def page(address: str, show: Page, method: str = "GET", turns: CapacityLimiter | None = None) -> Route:
        async def endpoint(request: Request) -> Response:
            console.look()
            request.state.seen = console.broadcast.seen  # before the page is made
            if turns is console.story_turns and led_here(request):
                return await console.in_thread(_ask, console, request)
            if turns is not None:
                async with console.turn(turns):
                    found = await console.in_thread_of_its_own(show, console, request)
            elif iscoroutinefunction(show):
                found = show(console, request)
            else:
                found = await console.in_thread(show, console, request)
            return found if isinstance(found, Response) else await found

        return Route(address, endpoint, methods=[method])

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
        page("/login", session.show),
        page("/login", session.log_in, "POST"),
        page("/logout", session.log_out, "POST"),
        page("/events", session.stream),
        page("/", group.show),
        page("/waiting", waiting.show),
        page("/waiting/records", waiting.show_records, turns=console.story_turns),
        page("/waiting/act", waiting.ask, turns=console.story_turns),
        page("/waiting/act", waiting.act, "POST"),
        page("/waiting/cancel/{name}", waiting.ask_cancel),
        page("/waiting/cancel/{name}", waiting.cancel, "POST"),
        page("/topology", group.show_topology),
        page("/topology/refresh", group.refresh, "POST"),
        page("/pause", pauses.show),
        page("/pauses", pauses.pause, "POST"),
        page("/pauses/resume", pauses.resume, "POST"),
        page("/outages", group.open_outage, "POST"),
        page("/outages/close", group.close_outage, "POST"),
        page("/failures", letters.show_failures),
        page("/failures/texts", letters.show_texts),
        page("/failures/names", letters.show_names),
        page("/failures/{what}", letters.show_picked),
        page("/letters", letters.show),
        page("/search", find.search),
        page("/find", find.show),
        page("/export", letters.show_export),
        page("/export", letters.export, "POST"),
        page("/letters/{name}", letter.show, turns=console.letter_turns),
        page("/letters/{name}/facts", letter.show_facts),
        page("/letters/{name}/story", letter.show_story, turns=console.story_turns),
        page("/letters/{name}/raw", letter.raw, turns=console.letter_turns),
        page("/letters/{name}/compare", letter.compare, turns=console.letter_turns),
        page("/letters/{name}/edit", edit.show),
        page("/letters/{name}/edit", edit.edit, "POST"),
        page("/redrive", send.show_redrive),
        page("/redrive", send.redrive, "POST"),
        page("/discard", send.show_discard),
        page("/discard", send.discard, "POST"),
        page("/purge", send.show_purge),
        page("/purge", send.purge, "POST"),
        page("/tasks/{task}", send.show_task),
        page("/tasks/{task}", send.answer, "POST"),
        page("/jobs", jobs.show),
        page("/jobs/{job}", jobs.show_one),
        page("/jobs/{job}/cancel", jobs.show_cancel),
        page("/jobs/{job}/cancel", jobs.cancel, "POST"),
        page("/jobs/{job}/resume", jobs.resume, "POST"),
        page("/audit", jobs.show_trail),
    ]
    handlers: dict[type[Exception] | int, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _http_error(console),
        ClientDisconnect: _gone,
        **dict.fromkeys(LIBRARY_ERRORS, _library_error(console)),
        Exception: _any_error(console),
    }
    inner = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Guard(inner, console.authentication, hosts)


def _ask(console: Console, request: Request) -> Response:
    """Ask whether to read many records, because a link of another site led here."""
    return console.page(
        request,
        "error.html",
        title="A link of another site led here",
        message="This page reads many records from Kafka.",
        led=_address(request),
    )


async def _gone(request: Request, _: Exception) -> Response:
    """Note that a client went away before it had sent its form. No one gets the response."""
    _log.debug("%s %s: the client went away", request.method, request.url.path)
    return Response(status_code=HTTPStatus.BAD_REQUEST)


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
        later = isinstance(error, NotReadYetError | TransportError)
        status = HTTPStatus.SERVICE_UNAVAILABLE if later else HTTPStatus.CONFLICT
        title = "Not possible now" if later else "Not possible"
        event = error.event if isinstance(error, NotReadYetError) and request.method == "GET" else None
        again = {"again": _address(request), "event": event} if event else {}
        return await console.in_thread(
            console.page, request, "error.html", status, title=title, message=str(error), **again
        )

    return respond


def _address(request: Request) -> str:
    query = request.url.remove_query_params(AGAIN).query
    return quote(request.scope["path"], safe="/@") + (f"?{query}" if query else "")


def _any_error(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        _log.error("%s %s", request.method, request.url.path, exc_info=error)
        return await console.in_thread(
            console.page, request, "error.html", 500, title="Internal error", message=f"{type(error).__name__}: {error}"
        )

    return respond
