"""Ends a query of DuckDB that takes too long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.errors import SlowQueryError

if TYPE_CHECKING:
    import duckdb

_AGAIN_S: Final = 0.02
"""Time between two interruptions. DuckDB forgets one that comes before the query runs."""


@contextmanager
def time_limit(opened: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt queries of a connection that run in the block for longer.

    Raises:
        SlowQueryError: a query was interrupted.
    """
    from duckdb import InterruptException  # noqa: PLC0415 - an optional dependency

    ended = threading.Event()

    def interrupt() -> None:
        ended.wait(seconds)
        while not ended.wait(_AGAIN_S):
            opened.interrupt()

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    try:
        yield
    except InterruptException:
        raise SlowQueryError(seconds) from None
    finally:
        ended.set()
        watcher.join()
