"""The days that tables are divided by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

_DAY_MS: Final = 86_400_000


def utc_day(timestamp: str) -> Column:
    """The day of a timestamp in UTC. Spark's own functions go by the session's time zone, which may be submitted."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    return F.date_from_unix_date(F.floor(F.unix_millis(F.col(timestamp)) / _DAY_MS).cast("int"))
