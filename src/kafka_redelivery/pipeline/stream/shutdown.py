"""Graceful shutdown of a streaming query: the current micro-batch finishes, and no other begins."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from types import FrameType
from typing import Final

from kafka_redelivery.consumers.process.signals import exit_at_next, handled_signals
from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.topology.durations import format_duration

_log = logging.getLogger(__name__)

_CLOSING_S: Final = 3.0
"""The part of the shutdown timeout that is left for closing clients after the micro-batch."""

_STOP_DELAY_S: Final = 0.5
"""The time that Spark needs to note a stop. A micro-batch that fails earlier counts as a failure of the query."""


class Shutdown:
    """A shutdown request. Thread-safe: one thread requests the shutdown, others obey it."""

    def __init__(self, timeout: timedelta) -> None:
        """Create one that is not requested. ``timeout``: the longest time that the shutdown may take."""
        self._timeout_s = max(0.0, timeout.total_seconds() - _CLOSING_S)
        self.started = threading.Event()
        """Set when Spark has started the query that handles records."""

        self._requested = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._finished = threading.Event()
        self._cancelled = threading.Event()
        self._held = False
        self._release: threading.Timer | None = None

    @property
    def requested(self) -> bool:
        """Whether a shutdown was requested."""
        return self._requested.is_set()

    def request(self) -> None:
        """Request the shutdown."""
        self._requested.set()

    def wait_requested(self, seconds: float) -> bool:
        """Wait until :attr:`requested`, at most ``seconds``; return whether it is."""
        return self._requested.wait(seconds)

    @property
    def refuses(self) -> bool:
        """Whether :meth:`micro_batch` lets none begin now."""
        return self._requested.is_set() or self._held

    @property
    def idle(self) -> bool:
        """Whether no micro-batch is running."""
        return self._idle.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether the running micro-batch must end without being finished."""
        return self._cancelled.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Wait until :attr:`cancelled`, at most ``seconds``; return whether it is."""
        return self._cancelled.wait(seconds)

    @contextmanager
    def micro_batch(self) -> Iterator[None]:
        """Mark a micro-batch as running for the block. After a request, wait until the shutdown is finished instead.

        Raises:
            StreamHaltedError: the shutdown was requested, or micro-batches were held, before the block began.
        """
        if self.refuses:
            self._finished.wait(self._timeout_s + _CLOSING_S)
            raise StreamHaltedError("stopped before the micro-batch began")
        self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()

    def hold(self) -> bool:
        """Let no micro-batch begin until :meth:`resume`; return whether none is running."""
        self._held = True
        return self._idle.is_set()

    def release_soon(self) -> None:
        """End the wait of a micro-batch that may not begin shortly after: Spark's stop waits for it."""
        self._release = threading.Timer(_STOP_DELAY_S, self._finished.set)
        self._release.daemon = True
        self._release.start()

    def resume(self) -> None:
        """Let micro-batches begin again, after the queries have stopped."""
        if self._release is not None:
            self._release.cancel()
        self._held = False
        self._finished.clear()

    def finish(self) -> None:
        """Release the threads that wait for the end of the shutdown."""
        self._requested.set()
        self._cancelled.set()
        self._finished.set()

    def wait_for_micro_batch(self) -> bool:
        """Wait for the running micro-batch, at most for the timeout; return whether it has ended."""
        ended = self._idle.wait(self._timeout_s)
        if not ended:
            self._cancelled.set()
            _log.warning(
                "the micro-batch did not finish in time and is cancelled; records without a commit are handled again"
            )
        return ended


@contextmanager
def shutdown_on_signals(timeout: timedelta, given: Shutdown | None) -> Iterator[Shutdown]:
    """Request a shutdown on SIGTERM and SIGINT; a second signal ends the process immediately.

    In any other thread than the main one signals are left alone, because Python handles them only there.

    Args:
        timeout: the longest time that the shutdown may take.
        given: used instead, and signals are left alone.
    """
    if given is not None:
        try:
            yield given
        finally:
            given.finish()
        return
    shutdown = Shutdown(timeout)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        _log.info("%s: stopping, for at most %s", signal.Signals(number).name, format_duration(timeout))
        exit_at_next(number)
        shutdown.request()

    on_main_thread = threading.current_thread() is threading.main_thread()
    with handled_signals(on_signal) if on_main_thread else nullcontext():
        try:
            yield shutdown
            _log.info("stopped")
        finally:
            shutdown.finish()
