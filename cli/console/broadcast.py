"""Server-sent events: each is made once, and sent to all who look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from starlette.responses import StreamingResponse

_QUIET_S: Final = 15.0
"""A comment is sent after this time without an event, so that proxies keep the connection."""


class Broadcast:
    """Sends events to all open streams. Of each kind a slow reader gets the newest alone."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: set[_Stream] = set()
        self._closed = False

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def attach(self) -> None:
        """Use the event loop that runs."""
        self._loop = asyncio.get_running_loop()

    def publish(self, event: str, data: str) -> None:
        """Send an event; any thread may call this."""
        if self._loop is not None and self._streams:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._put, event, data)

    def close(self) -> None:
        """End all streams; for the thread of the event loop."""
        self._closed = True
        for each in self._streams:
            each.wake.set()

    def stream(self, first: dict[str, str]) -> StreamingResponse:
        """Return a response that sends ``first``, and then events as they come."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(first), media_type="text/event-stream", headers=headers)

    def _put(self, event: str, data: str) -> None:
        for each in self._streams:
            each.waiting[event] = data
            each.wake.set()

    async def _events(self, first: dict[str, str]) -> AsyncIterator[str]:
        mine = _Stream(dict(first))
        self._streams.add(mine)
        try:
            yield "retry: 2000\n\n"
            while not self._closed:
                mine.wake.clear()
                waiting, mine.waiting = mine.waiting, {}
                for event, data in waiting.items():
                    yield _text(event, data)
                if mine.waiting or self._closed:
                    continue
                try:
                    await asyncio.wait_for(mine.wake.wait(), _QUIET_S)
                except TimeoutError:
                    yield ": quiet\n\n"
        finally:
            self._streams.discard(mine)


class _Stream:
    def __init__(self, waiting: dict[str, str]) -> None:
        self.waiting = waiting
        self.wake = asyncio.Event()


def _text(event: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {event}\n{lines}\n"
