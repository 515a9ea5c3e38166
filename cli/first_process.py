"""Lets a process that is the first one of its container be ended while it starts.

The kernel drops a signal to the first process of a container unless it has a handler. The worker's own are set when it
begins to work; until then a stop would wait for its whole grace period.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def heed_signals() -> None:
    """End at SIGTERM or SIGINT until somebody sets other handlers; elsewhere the kernel does that by itself."""
    if os.getpid() != 1:
        return
    for number in _SIGNALS:
        signal.signal(number, _nothing_yet)
    read, write = os.pipe()
    os.set_blocking(write, False)
    # Written to in the moment of the signal. A handler would run only when the call into the client returns.
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read,), name="signals", daemon=True).start()


def _nothing_yet(_number: int, _frame: FrameType | None) -> None:
    """Marks a signal that nobody else handles yet."""


def _watch(told: int) -> None:
    while True:
        for number in os.read(told, 16):
            if number in _SIGNALS and signal.getsignal(number) is _nothing_yet:
                os._exit(128 + number)
