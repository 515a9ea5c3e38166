"""SIGTERM and SIGINT (Ctrl-C): how commands end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
