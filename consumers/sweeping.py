"""Runs a sweeper on a thread of its own; what goes wrong with it does not end what works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from consumers.beside import beside
from consumers.sweeper import Sweeper

_AGAIN_S = 10.0
"""After an error."""


def sweeping(make: Callable[[], Sweeper] | None) -> AbstractContextManager[None]:
    """Sweep, in a thread, while the block runs; after an error a new sweeper begins from the start.

    Args:
        make: makes a sweeper; ``None`` = there is nothing to sweep.
    """
    if make is None:
        return nullcontext()
    return beside("sweeper", lambda ended: make().run(ended), "expired dead letters are not removed", again_s=_AGAIN_S)
