"""SIGTERM and SIGINT: a shutdown within a time limit, and an immediate end before that is possible."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Final

from kafka_redelivery.topology.durations import format_duration

_log = logging.getLogger(__name__)

_GRACE_S = 2.0
"""Time after the time-out in which Python itself can end the process."""

_STDERR = 2
"""The file descriptor, which is there whatever ``sys.stderr`` is."""

_DEFAULTS: Final[Mapping[int, object]] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}


def exit_on_signals() -> None:
    """Make the first process of a container end at a signal until it sets handlers of its own.

    The kernel drops a signal to that process unless it has a handler. Without this a process that is stopped while it
    starts would run until the end of its grace period. Does nothing in any other process, and nothing about a signal
    that the program handles already. For the main thread.
    """
    unhandled = [number for number, default in _DEFAULTS.items() if signal.getsignal(number) is default]
    if os.getpid() != 1 or not unhandled:
        return
    for number in unhandled:
        signal.signal(number, _exit_at_start)
    read, write = os.pipe()
    os.set_blocking(write, False)
    # The pipe is written to immediately. A handler would run only when the call into the Kafka client returns.
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_exit_at_signal, args=(read,), name="signals", daemon=True).start()


def _exit_at_start(number: int, _frame: FrameType | None) -> None:
    """Handle a signal that no other code handles yet."""
    os._exit(128 + number)


def _exit_at_signal(signals: int) -> None:
    while True:
        for number in os.read(signals, 16):
            if number in _DEFAULTS and signal.getsignal(number) is _exit_at_start:
                os._exit(128 + number)


@contextmanager
def stop_on_signal(stop: Callable[[], None], timeout: timedelta) -> Iterator[None]:
    """Call ``stop`` on the first SIGTERM and on the first SIGINT while the block runs.

    A second signal of the same kind ends the process immediately.

    A shutdown can hang, in the block or behind it, for example while Kafka does not answer. After ``timeout`` the
    process exits with status 1. Kafka then delivers again what is not committed, as it does after a kill. If a call
    into the Kafka client keeps Python's lock, no thread of Python can end the process: two seconds later it exits with
    status 1, and standard error has the stack of each thread.
    """
    deadline = threading.Timer(timeout.total_seconds(), _exit_unfinished, (timeout,))
    deadline.daemon = True

    def on_signal(number: int, _frame: FrameType | None) -> None:
        _log.info("%s: stopping within %s", signal.Signals(number).name, format_duration(timeout))
        exit_at_next(number)
        if not deadline.is_alive():
            deadline.start()
            # When a consumer closes, librdkafka drops requests of the same process that are still queued
            # (rd_kafka_cgrp_op_serve), and the Python client waits for their answers for ever, keeping Python's lock.
            faulthandler.dump_traceback_later(timeout.total_seconds() + _GRACE_S, exit=True, file=_STDERR)
        stop()

    with handled_signals(on_signal):
        yield
        _log.info("stopped")


@contextmanager
def handled_signals(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call ``on_signal`` at SIGTERM and SIGINT while the block runs."""
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_at_next(number: int) -> None:
    """Let the next signal of a kind end the process immediately."""
    # For the first process of a container the kernel ignores signals that have no handler.
    signal.signal(number, signal.SIG_DFL if os.getpid() != 1 else _exit_immediately)


def _exit_immediately(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def _exit_unfinished(timeout: timedelta) -> None:
    _log.error("not stopped within %s, exiting; Kafka delivers uncommitted records again", format_duration(timeout))
    os._exit(1)
