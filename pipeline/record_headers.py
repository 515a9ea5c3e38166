"""Headers of records on Spark, as columns. Whatever strangers write there is null, or text, and no error."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: what a header says beyond it is no time."""


def header(name: str) -> Column:
    """The bytes of a record's header, of one given twice the last; null without it."""
    return F.try_element_at(F.filter("headers", lambda each: each["key"] == name), F.lit(-1))["value"]


def header_text(name: str) -> Column:
    """A header as text; what is not UTF-8 in it is replaced."""
    return F.make_valid_utf8(header(name).cast("string"))


def header_number(name: str, kind: str = "bigint") -> Column:
    """A header as a number; null if it is none."""
    return header_text(name).try_cast(kind)


def header_time(name: str) -> Column:
    """A header in epoch ms as a timestamp; null if it is 0 (never) or no time."""
    milliseconds = header_number(name)
    return F.when(milliseconds.between(1, _LAST_MS), F.timestamp_millis(milliseconds))
