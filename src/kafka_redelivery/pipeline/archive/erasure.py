"""Erases rows of an archive for good, such as those of one person.

After an erasure no file of the table has the rows: neither those of its last version, nor those of earlier ones, nor
what killed runs have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import translate
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.condition import DEFAULT_LIMIT, condition, limited
from kafka_redelivery.pipeline.archive.delta_table import erase_rows
from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.errors import PredicateError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import read_table

_FILE: Final = "_erased_file"
_WILDCARDS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was erased, or would be."""

    rows: int = 0
    files: int = 0
    """Files that had such rows."""

    origins: Mapping[str, int] = field(default_factory=dict)
    """The number of rows by origin."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which rows to erase: all that is given has to apply."""

    key: str | None = None
    """The key of the record, as UTF-8."""

    origin: str | None = None
    """The source topic; ``*`` and ``?`` are wildcards."""

    where: Where | None = None
    within: timedelta = DEFAULT_LIMIT
    """How long it may take to find the rows with ``where``."""

    def __post_init__(self) -> None:
        """Refuse to erase all rows.

        Raises:
            PredicateError: nothing is given.
        """
        if self.key is None and self.origin is None and self.where is None:
            raise PredicateError("nothing says which rows to erase: give --key, --origin or --where")

    def column(self) -> Column:
        """Return a condition that is true for the rows to erase.

        Raises:
            PredicateError: ``where`` names a column that the archive does not have.
        """
        found = F.lit(True)  # noqa: FBT003 - the value
        if self.key is not None:
            found &= F.col("key") == F.lit(self.key.encode())
        if self.origin is not None:
            found &= _origin_is(self.origin)
        if self.where is not None:
            found &= condition(self.where)
        return found


def _origin_is(pattern: str) -> Column:
    """Return the condition of a source topic, with the wildcards of ``redelivery dlq --origin``."""
    origin = F.col("origin")
    # Equality lets Spark skip files by the statistics of a Delta table.
    return origin.rlike(translate(pattern)) if _WILDCARDS & set(pattern) else origin == pattern


def count_rows(spark: SparkSession, path: str, chosen: Predicate) -> Erasure:
    """Count the rows of the table for which a condition is true.

    Args:
        spark: a session of :func:`archive_session`.
        path: the folder of the table.
        chosen: which rows.

    Raises:
        PredicateError: the condition names a column that the archive does not have.
        SlowConditionError: ``where`` takes too long.
        TableFormatError: there is no Delta table, or the session does not have Delta.
    """
    return _summary(_rows_by_file(spark, path, chosen))


def erase(spark: SparkSession, path: str, chosen: Predicate) -> Erasure:
    """Erase the rows of the table for which a condition is true. No other process may write to the table.

    If it is interrupted, some rows may be left. It can be repeated.

    Args:
        spark: a session of :func:`archive_session`.
        path: the folder of the table.
        chosen: which rows.

    Raises:
        PredicateError: the condition names a column that the archive does not have.
        SlowConditionError: ``where`` takes too long.
        TableFormatError: there is no Delta table, or the session does not have Delta.
    """
    found = _rows_by_file(spark, path, chosen)
    erase_rows(spark, LakeFiles(spark, path), (file for _, file in found), lambda old: _others(old, chosen))
    return _summary(found)


def _rows_by_file(spark: SparkSession, path: str, chosen: Predicate) -> Counter[tuple[str, str]]:
    """Return the number of rows to erase by origin and file."""
    frame = read_table(spark, path, schema=ARCHIVE_SCHEMA).select("*", F.col("_metadata.file_path").alias(_FILE))
    rows = frame.where(chosen.column()).groupBy("origin", _FILE).count()
    with nullcontext() if chosen.where is None else limited(spark, chosen.within):
        return Counter({(row["origin"], row[_FILE]): row["count"] for row in rows.collect()})


def _summary(found: Mapping[tuple[str, str], int]) -> Erasure:
    origins: Counter[str] = Counter()
    for (origin, _), number in found.items():
        origins[origin] += number
    return Erasure(origins.total(), len({file for _, file in found}), dict(sorted(origins.items())))


def _others(old: DataFrame, chosen: Predicate) -> DataFrame:
    """Return the rows to keep: also those for which the condition is unknown, because a column is null."""
    # Columns that an earlier version did not write are null.
    lacking = {each.name: F.lit(None).cast(each.dataType) for each in ARCHIVE_SCHEMA if each.name not in old.columns}
    meant = F.coalesce(chosen.column(), F.lit(False))  # noqa: FBT003 - the value
    return old.withColumns(lacking).where(~meant).select(*old.columns)
