"""Ends a query of DuckDB that takes too long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka_redelivery.consumers.errors import SlowQueryError

if TYPE_CHECKING:
    import duckdb


@contextmanager
def time_limit(opened: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt queries of a connection that run in the block for longer.

    Raises:
        SlowQueryError: a query was interrupted.
    """
    from duckdb import InterruptException  # noqa: PLC0415 - an optional dependency

    timer = threading.Timer(seconds, opened.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except InterruptException:
        raise SlowQueryError(seconds) from None
    finally:
        timer.cancel()
