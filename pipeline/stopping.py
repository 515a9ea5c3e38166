"""An end in order: the micro-batch under way is finished, no other begins."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Final

from pipeline.errors import StreamHaltedError
from topology.durations import format_duration

_log = logging.getLogger(__name__)

_LEAVING_S: Final = 3.0
"""Of the time for stopping, so much is for what comes after the micro-batch."""

_TOLD_S: Final = 0.5
"""So long Spark takes to know that it is to stop. A micro-batch that ends with an error before is an error to it."""


class Stop:
    """Asked for by one thread, heeded by others."""

    def __init__(self, timeout: timedelta) -> None:
        """Nobody has asked yet.

        Args:
            timeout: how long stopping may take.
        """
        self._timeout_s = max(0.0, timeout.total_seconds() - _LEAVING_S)
        self._wanted = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._over = threading.Event()

    @property
    def wanted(self) -> bool:
        """Whether to end."""
        return self._wanted.is_set()

    def ask(self) -> None:
        """End soon."""
        self._wanted.set()

    def wait(self, seconds: float) -> bool:
        """Wait, unless the end is asked for; whether it is."""
        return self._wanted.wait(seconds)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """A micro-batch is under way. Once the end is asked for none begins: its thread waits until all is over.

        Raises:
            StreamHaltedError: all is over.
        """
        if self._wanted.is_set():
            self._over.wait(self._timeout_s + _LEAVING_S)
            raise StreamHaltedError("stopped before the micro-batch began")
        self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()

    def over(self) -> None:
        """Nobody has to be waited for any more."""
        self._wanted.set()
        self._over.set()

    def over_soon(self) -> None:
        """The same in a moment: Spark is being told to stop, and waits for a micro-batch that waits to begin."""
        moment = threading.Timer(_TOLD_S, self.over)
        moment.daemon = True
        moment.start()

    def let_finish(self) -> bool:
        """Wait for the micro-batch under way, at most for the given time; whether it has ended."""
        ended = self._idle.wait(self._timeout_s)
        if not ended:
            _log.warning("the micro-batch is not done in time and is given up; what it did not commit is handled again")
        return ended


@contextmanager
def stopped_by_signals(timeout: timedelta, given: Stop | None) -> Iterator[Stop]:
    """A stop that SIGTERM and SIGINT ask for; a second signal ends the process at once.

    Args:
        timeout: how long stopping may take.
        given: one that somebody else asks, which signals have nothing to do with.
    """
    if given is not None:
        try:
            yield given
        finally:
            given.over()
        return
    stop = Stop(timeout)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        _log.info("%s: stopping, for at most %s", signal.Signals(number).name, format_duration(timeout))
        signal.signal(number, signal.SIG_DFL)
        stop.ask()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
        _log.info("stopped")
    finally:
        stop.over()
        for number, handler in before.items():
            signal.signal(number, handler)
