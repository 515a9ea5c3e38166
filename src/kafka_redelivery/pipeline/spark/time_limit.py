"""A time limit for what Spark computes: jobs that take longer are cancelled."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AGAIN_S: Final = 1.0
"""A job that begins after the limit is cancelled at the latest after this time."""


@contextmanager
def time_limit(session: SparkSession, limit: timedelta) -> Iterator[threading.Event]:
    """Cancel the jobs that the block has not ended within a time. Their error is that of the block.

    A task that computes one row without an end, such as a pattern with many ``%``, goes on until its process ends.

    Args:
        session: the session of the block's jobs.
        limit: how long the block may take.

    Returns:
        an event that is set when jobs have been cancelled.
    """
    context, tag = session.sparkContext, f"limited-{secrets.token_hex(4)}"
    ended, expired = threading.Event(), threading.Event()

    def cancel() -> None:
        wait_s = limit.total_seconds()
        while not ended.wait(wait_s):
            expired.set()
            context.cancelJobsWithTag(tag)
            wait_s = _AGAIN_S

    thread = threading.Thread(target=cancel, name="time limit", daemon=True)
    context.addJobTag(tag)
    thread.start()
    try:
        yield expired
    finally:
        ended.set()
        thread.join()
        context.removeJobTag(tag)
