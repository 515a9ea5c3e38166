"""Waits that end in time where the library's own may not."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from kafka_redelivery.transport.protocols import ReleaseTime

_Item = TypeVar("_Item")
_Call = Callable[[], object]


def get_within(queue: SimpleQueue[_Item], within_s: float | None) -> _Item:
    """Take the next item from a queue.

    Before Python 3.13 ``SimpleQueue.get`` can wait for ever: it misses its time-out if the thread loses the processor
    for longer than that between two instructions, unless a failed ``get_nowait`` came first. So this makes one.

    Args:
        queue: only the calling thread takes items from it.
        within_s: seconds to wait at most; ``None`` waits until there is an item.

    Raises:
        Empty: there was no item in that time.
    """
    try:
        return queue.get_nowait()
    except Empty:
        if within_s is not None and within_s <= 0:
            raise
    return queue.get(timeout=within_s)


def wait_until(release_time: ReleaseTime | None) -> float:
    """Sleep until the release time and return the seconds slept."""
    left_s = 0.0 if release_time is None else release_time.monotonic_s - time.monotonic()
    if left_s <= 0:
        return 0.0
    time.sleep(left_s)  # noqa: TID251 - a few ms, and this thread has nothing else to do
    return left_s


class BoundedCalls:
    """Makes calls on a thread of its own, so that the caller can stop waiting. Used by one thread.

    After a time-out, drop this object together with what the call belongs to: its thread may never return. The thread
    is a daemon, so it does not keep the process from ending. It ends when this object is dropped, if no call runs.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[_Call, Future[object]] | None] = SimpleQueue()
        weakref.finalize(self, self._calls.put, None)
        threading.Thread(target=_make_calls, args=(self._calls,), name="calls", daemon=True).start()

    def make(self, call: _Call, within_s: float) -> None:
        """Make a call and drop what it returns.

        Raises:
            TimeoutError: it did not return in time.
            Exception: whatever it raises.
        """
        outcome: Future[object] = Future()
        self._calls.put((call, outcome))
        outcome.result(within_s)


def _make_calls(calls: SimpleQueue[tuple[_Call, Future[object]] | None]) -> None:
    while (wanted := calls.get()) is not None:
        call, outcome = wanted
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by make()
            outcome.set_exception(error)
        del wanted, call, outcome  # they reference the client, which must end when its owner drops it
