"""A thread beside the one that works. What goes wrong in it is told and tried again, and ends nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from transport.errors import TransportError, WriterFencedError

_log = logging.getLogger(__name__)

_LEAVE_S = 5.0


def _nothing() -> None:
    pass


@contextmanager
def beside(
    name: str,
    run: Callable[[threading.Event], None],
    undone: str,
    *,
    again_s: float,
    failed: Callable[[], None] = _nothing,
) -> Iterator[None]:
    """Run something in a thread while the block runs.

    Only what is fenced is not begun again: that would take the name from the process that has it now.

    Args:
        name: of the thread.
        run: works until the event is set; called again after an error.
        undone: what is not done after an error, as the beginning of a sentence for the log.
        again_s: how long after an error it begins again.
        failed: called after each error.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            try:
                run(ended)
            except WriterFencedError as error:
                _log.error("%s by this process any more: %s", undone, error)
                return
            except TransportError as error:
                _log.warning("%s now: %s", undone, error)
                failed()
            except Exception:  # noqa: BLE001 - what runs beside must not end what works
                _log.exception("%s now", undone)
                failed()
            ended.wait(again_s)

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LEAVE_S)
