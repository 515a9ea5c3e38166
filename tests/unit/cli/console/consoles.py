"""A console without a Kafka: its threads do not run, so that pages show that nothing is known yet."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from anyio.lowlevel import checkpoint
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from kafka_redelivery.cli.console.access import Authentication, LocalUser, Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.guard import LOOPBACK, Guard
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.server import application
from kafka_redelivery.topology.config.loading import load_settings

CONFIGURATION = """
group: billing
kafka: {bootstrap.servers: "127.0.0.1:1"}
sources: [{topic: orders, value: {format: json}}]
"""
ADDRESS = "http://127.0.0.1:8080"


def console_of(
    tmp_path: Path, authentication: Authentication | None = None, options: ConsoleOptions | None = None
) -> Console:
    """Return a console; without an authentication for one user who is an admin."""
    return Console(
        load_settings(CONFIGURATION),
        tmp_path,
        options or ConsoleOptions(),
        authentication or LocalUser(User("ann", Role.ADMIN)),
    )


def guarded(console: Console) -> Guard:
    """Return its application, for loopback."""
    return application(console, LOOPBACK)


def client(app: Guard, peer: str = "127.0.0.1") -> TestClient:
    """Return a browser that follows no redirect."""
    return TestClient(app, ADDRESS, follow_redirects=False, client=(peer, 50_000))


async def answered(
    app: Guard, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: Iterable[bytes] = ()
) -> tuple[int, str]:
    """Return the status and the text of a response; the application gets the request as a server passes it on.

    A test can send several at the same time, and a body piece by piece.
    """
    pieces, sent = iter(body), list[Message]()
    address, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": address,
        "raw_path": address.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), text.encode()) for name, text in {"host": "127.0.0.1", **(headers or {})}.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
    }

    async def receive() -> Message:
        await checkpoint()
        piece = next(pieces, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Message) -> None:
        await checkpoint()
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]).decode(errors="replace")


def routes(app: Guard, method: str) -> list[str]:
    """Return the addresses that a method may ask for, with something for each parameter."""
    found = [each for each in app.inner.routes if isinstance(each, Route) and method in (each.methods or ())]
    given = {"name": "DLQ.orders-0@1", "job": "3f9a2c01bd", "task": "x", "digest": "x", "what": "redrive"}
    return [each.path.format(**{name: given[name] for name in each.param_convertors}) for each in found]
