"""How often the interpreter looks for reference cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS_BETWEEN_SEARCHES = 20_000


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Look for reference cycles seldom, and never among what was made at start.

    Ours hold none, but a buffer holds thousands of records and a write tens of thousands of header
    pairs: at the default of one search in 700 objects, a third of a failed record's time went there.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
