"""SIGTERM and SIGINT (Ctrl-C): how commands end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets.

    A second signal of the same kind ends the process immediately.
    """
    from kafka_redelivery.consumers.process.signals import exit_at_next, handled_signals

    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        exit_at_next(number)
        stop.set()

    with handled_signals(on_signal):
        yield stop


def exit_on_signals() -> None:
    """Make the first process of a container end at a signal until it sets handlers of its own.

    The kernel drops a signal to that process unless it has a handler. Without this a process that is stopped while it
    starts would run until the end of its grace period. Does nothing in any other process.
    """
    if os.getpid() != 1:
        return
    for number in _SIGNALS:
        signal.signal(number, _placeholder)
    read, write = os.pipe()
    os.set_blocking(write, False)
    # The pipe is written to immediately. A handler would run only when the call into the Kafka client returns.
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_exit_at_signal, args=(read,), name="signals", daemon=True).start()


def _placeholder(_number: int, _frame: FrameType | None) -> None:
    """Handler of a signal that no other code handles yet."""


def _exit_at_signal(signals: int) -> None:
    while True:
        for number in os.read(signals, 16):
            if number in _SIGNALS and signal.getsignal(number) is _placeholder:
                os._exit(128 + number)
