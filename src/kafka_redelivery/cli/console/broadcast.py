"""Server-sent events: each is made once, and sent to all who look."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
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
        self._lock = threading.Lock()
        self._sent: Counter[str] = Counter()

    @property
    def seen(self) -> str:
        """The events until now. A page names them when it opens its stream, which then makes up for later ones."""
        with self._lock:
            return ",".join(f"{event}.{number}" for event, number in sorted(self._sent.items()))

    def missed(self, seen: str) -> dict[str, str]:
        """Return the events that were sent after ``seen``, without their content."""
        with self._lock:
            known = {each.rpartition(".")[0]: each.rpartition(".")[2] for each in seen.split(",")}
            return {event: "changed" for event, number in self._sent.items() if known.get(event) != str(number)}

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def attach(self) -> None:
        """Use the event loop that runs."""
        self._loop = asyncio.get_running_loop()

    def publish(self, event: str, data: str) -> None:
        """Send an event; any thread may call this."""
        with self._lock:
            self._sent[event] += 1
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
