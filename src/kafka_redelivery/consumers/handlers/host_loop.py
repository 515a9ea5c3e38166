"""The event loop of a program that has a worker in it, as the handlers of that worker use it.

The program may block its loop. Handlers then wait, while the polling thread, which has no part in that, keeps the
partitions. Time in which the loop was blocked is no time that a handler took.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.running_time import TICK_S, RunningTime
from kafka_redelivery.consumers.telemetry.health import Health

_log = logging.getLogger(__name__)

_BLOCKED_S: Final = 2.0
"""A loop that has not run for so long is reported."""

_LOOK_S: Final = 0.5
_SUBJECT: Final = "event loop"


class HostLoop(HandlerLoop):
    """The loop of the program. Create it there; :meth:`end` ends its use.

    A task of the loop ticks, so it is known since when the loop does not run. When the program ends its loop it cancels
    all tasks, this one among them, before any of them runs again; so a handler that was cancelled together with it has
    not failed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = self._host = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._ticked_s = monotonic_s()
        self._time = RunningTime(cpu_s=lambda: 0.0)  # a blocked loop may use the processor
        self._task = self._host.create_task(self._tick())

    @property
    def ending(self) -> bool:
        """See :attr:`HandlerLoop.ending`. Read on the loop."""
        return self._task.done() or self._task.cancelling() > 0 or self._host.is_closed()

    def seconds_ago(self, seconds: float) -> float:
        """See :meth:`HandlerLoop.seconds_ago`."""
        return self._time.seconds_ago(seconds)

    def close(self) -> None:
        """Leave what handlers have opened. Tasks that they have started besides are the program's."""
        if not (self.ending or self._ending):
            self._ending = True
            self._leave_all()

    def call(self, callback: Callable[[], object]) -> None:
        """Call a function on the loop, unless that is closed."""
        with suppress(RuntimeError):
            self._host.call_soon_threadsafe(callback)

    def end(self) -> None:
        """Tick no more. Called on the loop."""
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            self._time.tick()
            self._ticked_s = monotonic_s()
            await asyncio.sleep(TICK_S)

    @contextmanager
    def watched(self, health: Health) -> Iterator[None]:
        """Log that the loop is blocked, and by what, and note it in the health, while the block runs."""
        blocked = False

        def look(ended: threading.Event) -> None:
            nonlocal blocked
            while not ended.wait(_LOOK_S):
                since_s = monotonic_s() - self._ticked_s
                if self._task.done() or (since_s > _BLOCKED_S) is blocked:
                    continue
                blocked = not blocked
                where = self._where() if blocked else ""
                note = f"the event loop of the program is blocked, and async handlers wait: {where}"
                health.note(_SUBJECT, note if blocked else "")
                _log.warning("%s", note) if blocked else _log.info("the event loop of the program runs again")

        consequence = "it is not watched whether the event loop is blocked"
        with background_thread("loop-watch", look, consequence, restart_s=_LOOK_S):
            yield

    def _where(self) -> str:
        """Return what the loop's thread does, innermost call first, without lines of source code."""
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the documented way
        return ", called at ".join(_calls(frame)) or "it does not run"


def _calls(frame: FrameType | None) -> Iterator[str]:
    """Yield the calls of a thread down to the event loop, innermost first."""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("asyncio."):
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"
        frame = frame.f_back
