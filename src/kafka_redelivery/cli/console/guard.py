"""What every request passes: the host that it names, who asks, where it comes from; and what every response forbids."""

from __future__ import annotations

from collections.abc import Container
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from kafka_redelivery.cli.console.access import Authentication

_SOURCES: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
POLICY: Final = "; ".join(f"{name} {allowed}" for name, allowed in _SOURCES.items())
"""What a page may load and run: files of the console alone, and nothing that is written in the page itself."""

_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE: Final = frozenset({"GET", "HEAD"})
_PUBLIC: Final = ("/assets/", "/login", "/healthz", "/favicon.")
"""What is shown to those who are not known."""

AGAIN: Final = "retried"
"""A parameter of an address to which a page of our own has led, because a link of another site led there before."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """An ASGI application around the console's own."""

    def __init__(self, app: Starlette, authentication: Authentication, hosts: Container[str] | None) -> None:
        """Take the application.

        Args:
            app: gets the requests that are let through; ``scope["visitor"]`` says who asks.
            authentication: says who asks.
            hosts: the names by which the console may be called; ``None`` = any. On loopback another name is that of
                a site whose name leads here, so that its scripts could read what is shown.
        """
        self.inner, self._authentication, self._hosts = app, authentication, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        connection = HTTPConnection(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(connection, scope)
        await (refusal or self.inner)(scope, receive, send_guarded)

    def _refusal(self, connection: HTTPConnection, scope: Scope) -> Response | None:
        path, method = scope["path"], scope["method"]
        host = _host(connection)
        if host is None or (self._hosts is not None and host not in self._hosts):
            return PlainTextResponse(
                "the console is called by a name that is not its own; open the address that it has printed",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        shows_page = method in _SAFE and connection.headers.get("Sec-Fetch-Dest", "document") == "document"
        if not (shows_page or _is_own(connection)):
            return PlainTextResponse("this request comes from another site", HTTPStatus.FORBIDDEN)
        visitor = self._authentication.visitor(connection)
        scope["visitor"] = visitor
        if visitor is not None or path.startswith(_PUBLIC):
            return None
        if not self._authentication.logs_in:
            return PlainTextResponse("the proxy in front of the console does not say who you are", HTTPStatus.FORBIDDEN)
        return _login(connection, path, method)


def _login(connection: HTTPConnection, path: str, method: str) -> Response:
    """Lead a visitor who is not known to the page on which to log in."""
    query = f"?{connection.url.query}" if connection.url.query else ""
    address = f"/login?next={quote(path + query, safe='')}"
    if connection.headers.get("HX-Request"):
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": "/login"})
    if method not in _SAFE or connection.headers.get("Accept") == "text/event-stream":
        return PlainTextResponse("you are not logged in", HTTPStatus.UNAUTHORIZED)
    if connection.headers.get("Sec-Fetch-Site") == "cross-site" and AGAIN not in connection.query_params:
        # A browser leaves a SameSite=Strict cookie out when a link of another site leads here. This page leads to
        # the same address, as our own.
        mark = f"{query}&{AGAIN}=1" if query else f"?{AGAIN}=1"
        target = "/" + quote(path.lstrip("/"), safe="/@") + mark  # two slashes would begin the name of another host
        return HTMLResponse(
            '<!doctype html><html lang="en"><title>Opening</title>'
            f'<meta http-equiv="refresh" content="0; url={_escaped(target)}">'
        )
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "%22").replace("<", "%3C").replace(">", "%3E")


def _host(connection: HTTPConnection) -> str | None:
    """Return the host that a request names; ``None`` for what is no host, such as ``[``."""
    try:
        return urlsplit(f"//{connection.headers.get('Host', '')}").hostname or ""
    except ValueError:
        return None


def led_here(connection: HTTPConnection) -> bool:
    """Whether a link of another site has led to this page, which any site can do to anyone who looks at it."""
    return AGAIN in connection.query_params or not _is_own(connection)


def _is_own(connection: HTTPConnection) -> bool:
    """Whether a page of the console sends a request, as far as the browser says it."""
    site = connection.headers.get("Sec-Fetch-Site")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    origin = connection.headers.get("Origin")
    try:
        return origin is None or urlsplit(origin).netloc == connection.headers.get("Host", "")
    except ValueError:
        return False
