"""Runs a sweeper on a thread of its own; what goes wrong with it does not end what works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from consumers.sweeper import Sweeper
from transport.errors import TransportError, WriterFencedError

_log = logging.getLogger(__name__)

_AGAIN_S = 10.0
"""After an error."""

_LEAVE_S = 5.0


@contextmanager
def sweeping(make: Callable[[], Sweeper] | None) -> Iterator[None]:
    """Sweep, in a thread, while the block runs.

    What goes wrong is logged and tried again from the start with a new sweeper. Only one that is fenced is not
    replaced: that would take the name from the process that has it now.

    Args:
        make: makes a sweeper; ``None`` = there is nothing to sweep.
    """
    if make is None:
        yield
        return
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            try:
                make().run(ended)
            except WriterFencedError as error:
                _log.error("expired dead letters are no longer removed by this process: %s", error)
                return
            except TransportError as error:
                _log.warning("expired dead letters are not removed now: %s", error)
            except Exception:  # noqa: BLE001 - what only cleans up must not end what works
                _log.exception("expired dead letters are not removed now")
            ended.wait(_AGAIN_S)

    thread = threading.Thread(target=work, name="sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LEAVE_S)
