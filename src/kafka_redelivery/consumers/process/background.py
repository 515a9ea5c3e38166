"""Background threads. An error is logged and the work is started again; it never ends the process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_redelivery.transport.errors import TransportError, WriterFencedError

_log = logging.getLogger(__name__)

_JOIN_S = 5.0


def _no_op() -> None:
    pass


@contextmanager
def background_thread(
    name: str,
    run: Callable[[threading.Event], None],
    consequence: str,
    *,
    restart_s: float,
    on_error: Callable[[], None] = _no_op,
) -> Iterator[None]:
    """Run a function in a thread while the block runs, and start it again after an error.

    A fenced writer is the exception: the thread ends, because a restart would fence the process that has the name now.

    Args:
        name: the thread's name.
        run: works until the event is set.
        consequence: what does not happen after an error, as the start of a log line.
        restart_s: seconds between an error and the restart.
        on_error: called after each error.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            try:
                run(ended)
            except WriterFencedError as error:
                _log.error("%s by this process any more: %s", consequence, error)
                return
            except TransportError as error:
                _log.warning("%s now: %s", consequence, error)
                on_error()
            except Exception:  # noqa: BLE001 - an error in the background must not end the process
                _log.exception("%s now", consequence)
                on_error()
            ended.wait(restart_s)

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_S)
