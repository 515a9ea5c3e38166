"""The table of the archive: its layout, its compaction, and the erasure of rows, by commands of Delta Lake.

A table is partitioned by day. Compaction orders the rows of a day by origin, so that readers of one origin skip files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import is_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TARGET_BYTES: Final = 128 * 2**20
"""The target size of a file."""

STATISTICS_SETTING: Final = "spark.databricks.delta.properties.defaults.dataSkippingStatsColumns"
STATISTICS: Final = (
    "topic",
    "partition",
    "offset",
    "dead_lettered_at",
    "origin",
    "origin_offset",
    "reason",
    "fingerprint",
)
"""Of these columns Delta writes the lowest and the highest value of each file into its log, where no erasure reaches
them. So they have nothing of a record or of the text of an exception."""

DELTA_CONFIGURATION: Final = {
    STATISTICS_SETTING: ",".join(STATISTICS),
    # VACUUM lists the folders of the table in so many tasks, by default 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    "spark.databricks.delta.optimize.maxFileSize": str(_TARGET_BYTES),
    "spark.databricks.delta.optimize.minFileSize": str(_TARGET_BYTES // 2),
}
"""Settings of a session that writes the table."""

_LAYOUT: Final = ("day",)
_CLUSTERED_BY: Final = "origin"
_DAY: Final = re.compile(r"day=([^/]+)/")
_SMALL_BYTES: Final = _TARGET_BYTES // 4
"""Ordering by origin makes files of at least half the target size, apart from the sampling of Spark."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction."""

    folders: int = 0
    """Folders of the table whose files were merged."""

    before: int = 0
    """Small files before."""

    after: int = 0
    """Files that replaced them."""

    def __add__(self, other: CompactionResult) -> CompactionResult:
        """Add up two results."""
        return CompactionResult(self.folders + other.folders, self.before + other.before, self.after + other.after)


def partition_columns(spark: SparkSession, files: LakeFiles) -> tuple[str, ...]:
    """Return the columns that partition a table: those that it has. Earlier versions took the origin, too."""
    if not is_delta(files):
        return _LAYOUT
    return tuple(spark.sql(f"DESCRIBE DETAIL {_name(files)}").collect()[0]["partitionColumns"])


def optimize(spark: SparkSession, files: LakeFiles, now_ms: int, *, min_files: int) -> CompactionResult:
    """Merge the small files of the table, and order the rows of days that are over by origin.

    Replaced files stay until VACUUM deletes them.

    Args:
        spark: a session of :func:`archive_session`.
        files: the table.
        now_ms: epoch ms.
        min_files: how many small files a day has to have that is not over; one that is over has to have two.
    """
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
    small = _small_files(spark, files)
    running = [day for day, number in small.items() if day >= today and number >= min_files]
    over = [day for day, number in small.items() if day < today and number > 1]
    clustered = "" if _CLUSTERED_BY in partition_columns(spark, files) else f" ZORDER BY ({_CLUSTERED_BY})"
    return _optimize(spark, files, running, "") + _optimize(spark, files, over, clustered)


def erase_rows(
    spark: SparkSession, files: LakeFiles, names: Iterable[str], kept: Callable[[DataFrame], DataFrame]
) -> None:
    """Erase rows from the table and from its earlier versions.

    The days of these rows are written again without them. DELETE would do, but the log of the table would tell its
    condition. No other process may write to the table: files that no version names are deleted, whatever their age.

    Args:
        spark: a session of :func:`archive_session`.
        files: the table.
        names: paths or URIs of the files that have such rows.
        kept: returns the other rows.
    """
    listed = _listed({_day_of(name) for name in names})
    if listed:
        rows = kept(spark.read.format("delta").load(files.root).where(f"day IN ({listed})"))
        rows = rows.hint("rebalance", *partition_columns(spark, files))
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"day IN ({listed})")
        writer.option("compression", "zstd").save(files.root)
    # A table with deletion vectors still has rows that others have deleted.
    spark.sql(f"REORG TABLE {_name(files)} APPLY (PURGE)")
    with _setting(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        spark.sql(f"VACUUM {_name(files)} RETAIN 0 HOURS")


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def _small_files(spark: SparkSession, files: LakeFiles) -> Counter[str]:
    """Return the number of small files of each day that has several files."""
    found = [(_day_of(name), name) for name in _names(spark, files)]
    number = Counter(day for day, _ in found)
    return Counter(day for day, name in found if number[day] > 1 and files.file(name).size < _SMALL_BYTES)


def _day_of(name: str) -> str:
    """Return the day of a file, which its last folder but that of the origin names."""
    return str(_DAY.findall(name)[-1])


def _names(spark: SparkSession, files: LakeFiles) -> list[str]:
    """Return the files of the latest version."""
    return [uri.removeprefix(f"{files.root}/") for uri in spark.read.format("delta").load(files.root).inputFiles()]


def _optimize(spark: SparkSession, files: LakeFiles, days: Iterable[str], clustered: str) -> CompactionResult:
    listed = _listed(days)
    if not listed:
        return CompactionResult()
    rewritten = spark.sql(f"OPTIMIZE {_name(files)} WHERE day IN ({listed}){clustered}").select("metrics.*")
    done = rewritten.collect()[0]
    return CompactionResult(done["partitionsOptimized"], done["numFilesRemoved"], done["numFilesAdded"])


def _listed(days: Iterable[str]) -> str:
    return ", ".join(f"'{day}'" for day in sorted(days))


def _name(files: LakeFiles) -> str:
    """Return the name of the table in SQL."""
    return f"delta.`{files.root.replace('`', '``')}`"
