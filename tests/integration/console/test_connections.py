"""Clients that are silent or slow keep no other client out."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kafka_redelivery.cli.console import connections
from kafka_redelivery.cli.console.access import peer_of
from kafka_redelivery.cli.console.connections import LIMITS_S, Wait
from kafka_redelivery.cli.console.guard import Guard
from tests.integration.console.serving import Served, served
from tests.scenarios.secured import certificate
from tests.scenarios.waiting import until

_WITHIN_S = 20.0
_MIB = 2**20
_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class _App:
    """Answers at once, at a signal, without end, or after the body."""

    def __init__(self) -> None:
        self.held, self.ended = 0, threading.Semaphore(0)
        self.let_go = threading.Event()
        routes = [
            Route("/", lambda _: PlainTextResponse("page")),
            Route("/healthz", lambda _: PlainTextResponse("ok")),
            Route("/large", lambda _: PlainTextResponse("x" * (16 * _MIB))),
            Route("/held", self._hold),
            Route("/endless", self._endless),
            Route("/form", self._form, methods=["POST"]),
            Route("/refused", lambda _: PlainTextResponse("too large", 413), methods=["POST"]),
        ]
        self.app = cast("Guard", Starlette(routes=routes))

    async def _hold(self, _: Request) -> Response:
        self.held += 1
        await anyio.to_thread.run_sync(self.let_go.wait)
        return Response()

    async def _endless(self, _: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 2**16
                    await anyio.lowlevel.checkpoint()
            finally:
                self.ended.release()

        return StreamingResponse(chunks())

    async def _form(self, request: Request) -> Response:
        try:
            return PlainTextResponse(str(len(await request.body())))
        except ClientDisconnect:
            self.ended.release()
            return Response(status_code=400)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A few connections of each peer, and more in all."""
    monkeypatch.setattr(connections, "_MOST_OF_PEER", 8)
    monkeypatch.setattr(connections, "_MOST", 12)
    return monkeypatch


def _connected(served: Served, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", served.port), _WITHIN_S, (address, 0))
    opened.sendall(sent)
    return opened


def _asked(served: Served, path: str, address: str = "127.0.0.1") -> str:
    """Return the whole response."""
    with _connected(served, b"GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n" % path.encode(), address) as opened:
        return _rest(opened)


def _rest(opened: socket.socket) -> str:
    found = b""
    while piece := opened.recv(2**16):
        found += piece
    return found.decode()


def _receive(opened: socket.socket, end: bytes) -> None:
    """Receive a response up to its end."""
    found = b""
    while not found.endswith(end):
        piece = opened.recv(2**16)
        assert piece, found
        found += piece


def _is_closed(opened: socket.socket) -> bool:
    opened.settimeout(0.05)
    try:
        return opened.recv(2**16) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def _encryption(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return what a server encrypts with, and what trusts it."""
    authority, identity = certificate(folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(identity)
    return tls, ssl.create_default_context(cafile=str(authority))


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nX: ", b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"]
)
def test_clients_that_owe_a_request_keep_nobody_out(
    limits: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """The one that has been waited for longest makes room; nothing is logged of it."""
    del limits
    with ExitStack() as stack, served(_App().app) as running:
        first = stack.enter_context(_connected(running, sent))
        until(lambda: running.connections, "it is connected")
        for number in range(60):
            stack.enter_context(_connected(running, sent, f"127.0.0.{2 + number % 4}"))
            if number % 20 == 19:
                assert _asked(running, "/healthz").endswith("ok")
                assert _asked(running, "/").endswith("page")
        assert running.connections <= 13
        assert _is_closed(first)
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


def test_one_peer_keeps_no_other_out(limits: pytest.MonkeyPatch) -> None:
    """Not even with requests that are answered for ever, and a probe is answered to all."""
    del limits
    app = _App()
    with ExitStack() as stack, served(app.app) as running:
        for number in range(8):
            stack.enter_context(_connected(running, _HEAD.replace(b"/ ", b"/held ")))
            until(lambda: app.held == number + 1, "it is answered")  # noqa: B023 - called in this turn
        refused = _asked(running, "/")
        assert "503" in refused
        assert "too many requests" in refused
        assert _asked(running, "/healthz").endswith("ok")
        assert _asked(running, "/", "127.0.0.2").endswith("page")
        app.let_go.set()


def test_a_proxy_may_have_all_connections(limits: pytest.MonkeyPatch) -> None:
    """All users are one peer behind one that authenticates them."""
    del limits
    app = _App()
    with ExitStack() as stack, served(app.app, proxied=True) as running:
        for number in range(11):
            stack.enter_context(_connected(running, _HEAD.replace(b"/ ", b"/held ")))
            until(lambda: app.held == number + 1, "it is answered")  # noqa: B023 - called in this turn
        assert _asked(running, "/").endswith("page")
        app.let_go.set()


@pytest.mark.parametrize(
    ("wait", "sent"),
    [
        (Wait.HEAD, b"GET / HTTP/1.1\r\nX: "),
        (Wait.BODY, b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"),
    ],
)
def test_a_client_that_sends_a_byte_now_and_then_is_closed(
    monkeypatch: pytest.MonkeyPatch, wait: Wait, sent: bytes
) -> None:
    """The limit is on the whole head and the whole body, however often the client sends."""
    monkeypatch.setitem(LIMITS_S, wait, 1.0)
    app = _App()
    with served(app.app) as running, _connected(running, sent) as slow:
        began = time.monotonic()

        def closed() -> bool:
            try:
                slow.sendall(b"a")
            except OSError:
                return True
            return _is_closed(slow)

        until(closed, "it is closed", within_s=_WITHIN_S)
        assert time.monotonic() - began > 0.5
        assert wait is Wait.HEAD or app.ended.acquire(timeout=_WITHIN_S)


def test_a_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the response ends with it."""
    monkeypatch.setitem(LIMITS_S, Wait.READER, 0.5)
    app = _App()
    with served(app.app) as running, _connected(running, _HEAD.replace(b"/ ", b"/endless ")):
        assert app.ended.acquire(timeout=_WITHIN_S)
        until(lambda: not running.connections, "it is closed", within_s=_WITHIN_S)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_slow_reader_gets_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_encrypted: bool) -> None:
    """The limit is on the time without progress, also for what is sent after the response has been made."""
    monkeypatch.setitem(LIMITS_S, Wait.READER, 3.0)
    monkeypatch.setitem(LIMITS_S, Wait.HEAD, 3.0)
    monkeypatch.setattr("asyncio.constants.SSL_SHUTDOWN_TIMEOUT", 3.0)
    tls, trusting = _encryption(tmp_path) if is_encrypted else (None, None)
    with ExitStack() as stack, served(_App().app, tls) as running:
        slow = stack.enter_context(_connected(running))
        if trusting is not None:
            slow = stack.enter_context(trusting.wrap_socket(slow, server_hostname="127.0.0.1"))
        slow.sendall(_HEAD.replace(b"/ ", b"/large ").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        left, began = 16 * _MIB, time.monotonic()
        while left > 0:
            piece = slow.recv(2**16)
            assert piece
            left -= len(piece)
            time.sleep(0.25 * len(piece) / _MIB)
        slow.close()  # an encrypted connection ends when both sides have closed it
        assert time.monotonic() - began > 3


def test_no_more_is_read_of_a_body_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets the answer first."""
    monkeypatch.setitem(LIMITS_S, Wait.REFUSED, 0.5)
    with served(_App().app) as running:
        with _connected(running, b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n") as large:
            assert b"413" in large.recv(2**16)
            sent = 0
            with suppress(OSError):
                while sent < 200_000_000:
                    sent += large.send(b"a" * 2**16)
        assert sent < 32 * _MIB  # what the system keeps for a reader


def test_a_connection_is_used_again_after_a_small_body_that_was_refused() -> None:
    """It may come after the answer."""
    with served(_App().app) as running, _connected(running) as kept:
        for _ in range(3):
            kept.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
            _receive(kept, b"too large")
            kept.sendall(b"token=abc")
            kept.sendall(_HEAD)
            _receive(kept, b"page")


def test_a_connection_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a head may take."""
    monkeypatch.setitem(LIMITS_S, Wait.HEAD, 1.5)
    with served(_App().app) as running, _connected(running) as kept:
        for _ in range(5):
            kept.sendall(_HEAD)
            _receive(kept, b"page")
            time.sleep(0.5)


def test_what_is_no_request_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Anyone can send a thousand of them."""
    with served(_App().app) as running, _connected(running, b"\0\r\n\r\n") as opened:
        assert "400" in _rest(opened)
    assert not caplog.records


def test_a_handshake_has_a_limit_too(
    monkeypatch: pytest.MonkeyPatch, limits: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A connection counts before its handshake; the others are encrypted."""
    del limits
    monkeypatch.setitem(LIMITS_S, Wait.HEAD, 2.0)
    tls, trusting = _encryption(tmp_path)
    with ExitStack() as stack, served(_App().app, tls) as running:
        silent = [stack.enter_context(_connected(running)) for _ in range(20)]
        until(lambda: 0 < running.connections <= 8, "most have made room")
        with trusting.wrap_socket(_connected(running), server_hostname="127.0.0.1") as opened:
            for _ in range(2):
                opened.sendall(_HEAD)
                _receive(opened, b"page")
        with _connected(running, _HEAD) as plain:
            assert b"HTTP" not in _rest(plain).encode()
        until(lambda: all(map(_is_closed, silent)), "all are closed", within_s=_WITHIN_S)
        until(lambda: not running.connections, "none is left", within_s=_WITHIN_S)


def test_a_request_may_come_with_the_end_of_the_handshake(tmp_path: Path) -> None:
    """As from a client that writes both at once."""
    tls, trusting = _encryption(tmp_path)
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    encrypting = trusting.wrap_bio(received, to_send, server_hostname="127.0.0.1")
    with served(_App().app, tls) as running, _connected(running) as opened:
        found, written = b"", 0
        while not found.endswith(b"page"):
            try:
                encrypting.do_handshake()
                written = written or encrypting.write(_HEAD)
                found += encrypting.read(2**16)
            except ssl.SSLWantReadError:
                opened.sendall(to_send.read())
                piece = opened.recv(2**16)
                assert piece, found
                received.write(piece)


def test_what_counts_as_one_peer() -> None:
    """An IPv6 machine may use all addresses of its network."""
    assert peer_of("10.0.0.7") == peer_of("::ffff:10.0.0.7") == "10.0.0.7"
    assert peer_of("fd00:1:2:3::1") == peer_of("fd00:1:2:3:ffff::2") == "fd00:1:2:3::/64"
    assert peer_of("fd00:1:2:4::1") != peer_of("fd00:1:2:3::1")
