"""What keeps open pages current: values that a background thread looks at, and events that are sent to all pages."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final, Generic, NamedTuple, TypeVar

from starlette.responses import StreamingResponse

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.topology.backoff import Backoff

_log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

LOOKED_AT_S: Final = 20.0
"""How long after the last look a value is kept current."""

_LONGEST_PAUSE_S: Final = 10.0
"""Between two tries while Kafka is away."""

_QUIET_S: Final = 15.0
"""A comment is sent after this time without an event, so that proxies keep the connection."""

_OWN_CONTENT: Final = frozenset({"banner", "flow"})
"""Events that bring what is shown; the others say that it has changed."""


class Problem(NamedTuple):
    """Why a value cannot be brought up to date."""

    since_ms: int
    text: str


class Polled(Generic[_Value]):
    """A value, and why it is not current, if it is not."""

    def __init__(
        self,
        name: str,
        produce: Callable[[], _Value],
        every_s: float,
        changed: Callable[[], None] = lambda: None,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; :meth:`start` starts the thread.

        Args:
            name: names the thread, and the value in a log.
            produce: returns the value; called by the thread alone.
            every_s: time between two calls while a page is open.
            changed: called by the thread after each of them.
            rest: releases what ``produce`` keeps from call to call; called by the thread when no page is open any more.
        """
        self.value: _Value | None = None
        self.at_ms = 0
        """When the value was produced (epoch ms)."""

        self.problem: Problem | None = None
        self._name, self._produce, self._every_s, self._changed = name, produce, every_s, changed
        self._rest = rest
        self._until_s = 0.0
        self._wake, self._stop = threading.Event(), threading.Event()
        self._served = threading.Condition()
        self._asked = self._answered = 0
        self._started = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Produce the value for the first time, and go on while a page is open; calling it once is enough."""
        self.look()
        with self._served:
            if not self._started:
                self._started = True
                self._thread.start()

    def stop(self) -> None:
        """Produce nothing any more; does not wait."""
        self._stop.set()
        self._wake.set()

    def wait(self, within_s: float) -> None:
        """Wait until the thread has ended after :meth:`stop`."""
        if self._started:
            self._thread.join(within_s)

    def look(self) -> None:
        """Note that a page is open. After a while without one the value is produced at once."""
        now_s = monotonic_s()
        asleep, self._until_s = self._until_s <= now_s, now_s + LOOKED_AT_S
        if asleep:
            self._wake.set()

    def produce_now(self, within_s: float) -> bool:
        """Produce the value again, from what is there now, and wait for it; return whether it is there in time."""
        self.look()
        with self._served:
            self._asked += 1
            mine = self._asked
            self._wake.set()
            self._served.wait_for(lambda: self._answered >= mine or self._stop.is_set(), within_s)
            return self._answered >= mine and self.problem is None

    def _run(self) -> None:
        regular = backoff = Backoff(self._every_s, _LONGEST_PAUSE_S).failed(0.0)
        while not self._stop.is_set():
            self._wake.clear()
            asked = self._asked
            backoff = regular if self._once() else backoff.failed(monotonic_s())
            with self._served:
                self._answered = asked
                self._served.notify_all()
            if self._asked == asked:
                self._pause(backoff.pause_s)
        self._rest()

    def _pause(self, pause_s: float) -> None:
        if self._until_s > monotonic_s():
            self._wake.wait(pause_s)
        elif not self._wake.is_set():
            self._rest()
            self._wake.wait()

    def _once(self) -> bool:
        try:
            self.value = self._produce()
        except Exception as error:  # noqa: BLE001 - whatever it is, people read it on the page
            since_ms = wall_clock_ms() if self.problem is None else self.problem.since_ms
            if self.problem is None:
                _log.warning("%s: %s", self._name, error)
            self.problem = Problem(since_ms, str(error) or type(error).__name__)
        else:
            self.problem, self.at_ms = None, wall_clock_ms()
        try:
            self._changed()
        except Exception:  # noqa: BLE001 - a template may fail in any way, and the thread must go on
            _log.exception("%s: open pages are not brought up to date", self._name)
        return self.problem is None


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
        """Return the events that were sent after ``seen``, without those that bring what is shown."""
        with self._lock:
            known = {each.rpartition(".")[0]: each.rpartition(".")[2] for each in seen.split(",")}
            later = {event for event, number in self._sent.items() if known.get(event) != str(number)}
            return dict.fromkeys(sorted(later - _OWN_CONTENT), "changed")

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

    def stream(self, seen: str, first: Callable[[], Awaitable[dict[str, str]]]) -> StreamingResponse:
        """Return a response that sends what a page has missed, and then events as they come.

        Args:
            seen: as the page names it.
            first: returns what is sent at first. What changes while it does is sent, too.
        """
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(seen, first), media_type="text/event-stream", headers=headers)

    def _put(self, event: str, data: str) -> None:
        for each in self._streams:
            each.waiting[event] = data
            each.wake.set()

    async def _events(self, seen: str, first: Callable[[], Awaitable[dict[str, str]]]) -> AsyncIterator[str]:
        mine = _Stream()
        self._streams.add(mine)  # before it asks what was missed, so that nothing is sent in between
        try:
            yield "retry: 2000\n\n"
            found = self.missed(seen) | await first()
            mine.waiting = found | mine.waiting
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
    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self.wake = asyncio.Event()


def _text(event: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {event}\n{lines}\n"
