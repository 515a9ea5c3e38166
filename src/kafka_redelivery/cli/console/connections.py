"""The connections of a console. A client that keeps one waiting loses it after a time, or when there are too many.

uvicorn (version 0.54) limits neither the time of a TLS handshake, of a head and of a body nor that of reading a
response. It counts idle connections as requests, and answers every request with 503 when there are too many of them,
probes included, with a line in the log for each.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, cast

import h11  # what uvicorn parses requests with
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kafka_redelivery.cli.console.access import peer_of

_MOST: Final = 500
"""Connections at the same time: fewer than the files that a process may open on most machines, which is 1,024."""

_MOST_OF_PEER: Final = 250
"""Connections of one peer at the same time, unless a proxy authenticates all users and they are one peer."""

_LEAST_READ: Final = 2**16
"""Bytes. A client that reads so many in the time of :attr:`Wait.READER` gets the same time again."""

_NEVER_S: Final = 86_400.0
"""Time limit of asyncio for what is left to send when an encrypted connection is closed. Ours is that of a reader."""

_MOST_IGNORED: Final = 2**16
"""Bytes that are read of a body after the response. After a larger one the connection is closed."""


class Wait(Enum):
    """What a connection waits for its client to do."""

    HEAD = auto()
    """End the TLS handshake, and send the head of a request: from the connection, or from the last response."""

    BODY = auto()
    """Send the body of a request."""

    READER = auto()
    """Read what was written, also after the response has been made."""

    REFUSED = auto()
    """Read a response that was given before the whole body had come, and send the little that is left of it."""


LIMITS_S: Final = {Wait.HEAD: 15.0, Wait.BODY: 60.0, Wait.READER: 30.0, Wait.REFUSED: 3.0}
"""How long it waits."""


class Connection(H11Protocol):
    """A connection, for the thread of the event loop alone.

    When there are too many, the one that has waited longest for its client is closed, which is never one that is being
    answered. If all are being answered, a new one gets 503, unless it asks for ``/healthz``.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        *,
        proxied: bool,
        **of_uvicorn: Any,  # noqa: ANN401 - handed on
    ) -> None:
        """Prepare; with ``tls`` the client must begin with a handshake, and if all are ``proxied`` one peer has all."""
        super().__init__(**of_uvicorn)
        self.peer = ""
        self.wait: Wait | None = None
        self.since_s = 0.0
        """Since when it waits (the event loop's time)."""

        self._tls, self._proxied = tls, proxied
        self._below: asyncio.Transport | None = None
        """What an encrypted connection writes to. It takes a whole response, however large."""

        self._early = bytearray()
        """What came with the end of the handshake."""

        self._timer: asyncio.TimerHandle | None = None
        self._unread = self._ignored = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and begin the handshake or wait for the head."""
        super().connection_made(transport)
        self.peer = peer_of(self.client[0]) if self.client else ""
        self._watch()
        self._make_room()
        if self._tls is not None:
            # Begun here and not by asyncio, which would tell of a connection only after the handshake.
            transport.pause_reading()
            task = self.loop.create_task(self._encrypt(transport, self._tls))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _encrypt(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            encrypted = await self.loop.start_tls(transport, self, tls, server_side=True, ssl_shutdown_timeout=_NEVER_S)
        except OSError:
            encrypted = None
        if encrypted is None or encrypted.is_closing():  # the client went away, or does not speak TLS
            self.connection_lost(ConnectionAbortedError())
            return
        self._tls, self._below = None, transport
        self.connection_made(encrypted)
        if self._early:
            self.data_received(bytes(self._early))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends."""
        if self._tls is not None:
            self._early += data
            return
        super().data_received(data)
        self._watch()
        self._ignored = self._ignored + len(data) if self.wait is Wait.REFUSED else 0
        if self._ignored > _MOST_IGNORED:
            self.flow.pause_reading()

    def handle_events(self) -> None:
        """Begin to answer a request that has come."""
        self.app = self._refuse if self._too_many() else self.config.loaded_app
        super().handle_events()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the reader."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        self._watch()

    def shutdown(self) -> None:
        """Close it when what is being answered has been; a request that has not come entirely is not waited for."""
        if self.wait is Wait.BODY:
            self.end()
        elif not self.transport.is_closing():  # asyncio forgets to close an encrypted one that is closed twice
            super().shutdown()

    def _watch(self) -> None:
        """Begin a new limit when the connection waits for something else."""
        wait = self._awaited()
        if wait is not self.wait:
            self.wait, self.since_s = wait, self.loop.time()
            self._begin()

    def _awaited(self) -> Wait | None:
        if self.flow.write_paused:
            return Wait.READER
        if self.cycle is None:
            return Wait.HEAD
        if self.cycle.response_complete:
            if self._left():
                return Wait.READER
            return Wait.REFUSED if self.conn.their_state is h11.SEND_BODY else Wait.HEAD
        return Wait.BODY if self.cycle.more_body else None

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.wait is not None:
            self._unread = self._left()
            self._timer = self.loop.call_later(LIMITS_S[self.wait], self._expired)

    def _left(self) -> int:
        """Return how many bytes wait until the client reads."""
        below = 0 if self._below is None else self._below.get_write_buffer_size()
        return below + self.transport.get_write_buffer_size()

    def _expired(self) -> None:
        left = self._left()
        if self.wait is Wait.READER and (not left or self._unread - left >= _LEAST_READ):
            self.wait = None
            self._watch()
        else:
            self.end()

    def end(self) -> None:
        """Close it without waiting for the client."""
        self.connections.discard(self)
        self.transport.abort()

    def _make_room(self) -> None:
        waiting = [each for each in self._too_many() if each is not self and each.wait is not None]
        if waiting:
            min(waiting, key=lambda each: each.since_s).end()

    def _too_many(self) -> Collection[Connection]:
        """Return the connections of which there are too many: those of this peer, or all; empty if there are not."""
        most_of_peer = _MOST if self._proxied else _MOST_OF_PEER
        if len(self.connections) <= most_of_peer:
            return ()
        every = cast("set[Connection]", self.connections)
        of_peer = [each for each in every if each.peer == self.peer]
        if len(of_peer) > most_of_peer:
            return of_peer
        return every if len(every) > _MOST else ()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request while there are too many. A probe is answered, so that the console is not restarted."""
        refusal = PlainTextResponse(
            "too many requests at the same time; close other pages of the console, and load this one again",
            HTTPStatus.SERVICE_UNAVAILABLE,
            {"Connection": "close", "Retry-After": "5"},
        )
        answer = self.config.loaded_app if scope["path"] == "/healthz" else refusal
        await answer(scope, receive, send)
