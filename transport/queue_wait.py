"""Waiting for a queue, and no longer than was said."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TypeVar

_Thing = TypeVar("_Thing")


def next_of(queue: SimpleQueue[_Thing], within_s: float | None) -> _Thing:
    """What comes next.

    Before Python 3.13 ``get`` goes on for ever where the processor is taken away from it for longer than the time-out
    between two of its instructions, unless somebody has looked in vain since the last thing came. So look first.

    Args:
        queue: nobody else takes anything from it.
        within_s: wait at most so long; ``None`` = until something comes.

    Raises:
        Empty: nothing came in that time.
    """
    try:
        return queue.get_nowait()
    except Empty:
        if within_s is not None and within_s <= 0:
            raise
    return queue.get(timeout=within_s)
