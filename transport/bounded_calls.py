"""Calls of the client that may never return, kept off the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

_Call = Callable[[], object]
_Answer = SimpleQueue[BaseException | None]


class BoundedCalls:
    """One thread that makes the calls, so that the caller can stop waiting. Used by one thread.

    Who stopped waiting throws this away with what the call belongs to: its thread may be stuck for ever.
    It is a daemon, so it does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[_Call, _Answer]] = SimpleQueue()
        threading.Thread(target=_make_calls, args=(self._todo,), name="calls", daemon=True).start()

    def make(self, call: _Call, within_s: float) -> None:
        """Make a call; what it returns is of no interest.

        Raises:
            TimeoutError: it has not returned in time.
            Exception: whatever it raises.
        """
        answer: _Answer = SimpleQueue()
        self._todo.put((call, answer))
        try:
            error = answer.get(timeout=within_s)
        except Empty:
            raise TimeoutError from None
        if error is not None:
            raise error


def _make_calls(todo: SimpleQueue[tuple[_Call, _Answer]]) -> None:
    while True:
        call, answer = todo.get()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answer.put(error)
        else:
            answer.put(None)
        del call, answer  # they hold the client, which must end when its owner lets go of it
