"""The frequency of Python's garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS_PER_COLLECTION = 100_000


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
