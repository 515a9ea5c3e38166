"""The table of the archive: its layout, its compaction, and the erasure of rows, by commands of Delta Lake.

A table is partitioned by day. Compaction orders the rows of a day by origin, so that readers of one origin skip files.
After an erasure, such as of the rows of one person, no file of the table has the rows: neither those of its last
version, nor those of earlier ones, nor what killed runs have left.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.condition import DEFAULT_LIMIT, condition, limited
from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import is_delta, read_table
from kafka_redelivery.topology.errors import OptionError

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
    # Of all commands: an option is that of one write alone.
    "spark.sql.parquet.compression.codec": "zstd",
}
"""Settings of a session that writes the table."""

_LAYOUT: Final = ("day",)
_CHANGED: Final = "redelivery_changed_rows"
_FILE: Final = "_erased_file"
_WILDCARDS: Final = frozenset("*?[")
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
            OptionError: nothing is given.
        """
        if self.key is None and self.origin is None and self.where is None:
            raise OptionError("where", "nothing says which rows to erase: give --key, --origin or --where")

    def column(self) -> Column:
        """Return a condition that is true for the rows to erase.

        Raises:
            OptionError: ``where`` names a column that the archive does not have.
        """
        found = F.lit(True)  # noqa: FBT003 - the value
        if self.key is not None:
            found &= F.col("key") == F.lit(self.key.encode())
        if self.origin is not None:
            found &= _origin_is(self.origin)
        if self.where is not None:
            found &= condition(self.where)
        return found


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


def merge(spark: SparkSession, files: LakeFiles, changed: DataFrame, key: Sequence[str], days: Iterable[str]) -> None:
    """Replace columns of rows of the table. Only the files that have such rows are written again.

    Args:
        spark: a session of :func:`archive_session`.
        files: the table.
        changed: rows with the columns of the key and those to replace, which the table need not have yet.
        key: columns that tell the rows of the table apart; two that are null are equal.
        days: the days of these rows.
    """
    columns = [each for each in changed.schema if each.name not in key]
    present = spark.read.format("delta").load(files.root).columns
    lacking = [f"{each.name} {each.dataType.simpleString()}" for each in columns if each.name not in present]
    if lacking:
        spark.sql(f"ALTER TABLE {_name(files)} ADD COLUMNS ({', '.join(lacking)})")
    changed.createOrReplaceTempView(_CHANGED)
    same = " AND ".join(f"old.{each} <=> new.{each}" for each in key)
    new = ", ".join(f"{each.name} = new.{each.name}" for each in columns)
    try:
        spark.sql(
            f"MERGE INTO {_name(files)} AS old USING {_CHANGED} AS new ON old.day IN ({_listed(days)}) AND {same} "
            f"WHEN MATCHED THEN UPDATE SET {new}"
        )
    finally:
        spark.catalog.dropTempView(_CHANGED)


def erase(spark: SparkSession, path: str, chosen: Predicate, *, dry_run: bool = False) -> Erasure:
    """Erase the rows of the table for which a condition is true. If it is interrupted, it can be repeated.

    The days of these rows are written again without them. DELETE would do, but the log of the table would tell its
    condition. No other process may write to the table: files that no version names are deleted, whatever their age.

    Args:
        spark: a session of :func:`archive_session`.
        path: the folder of the table.
        chosen: which rows.
        dry_run: count only.

    Raises:
        OptionError: the condition names a column that the archive does not have.
        PipelineError: ``where`` takes too long.
        PipelineRefusedError: there is no Delta table, or the session does not have Delta.
    """
    read_table(spark, path)  # refuses what is no table
    files = LakeFiles(spark, path)
    # Before the rows are counted, so that no other process can write to the table unnoticed.
    before = None if dry_run else _version(spark, files)
    frame = read_table(spark, path, schema=ARCHIVE_SCHEMA).select("*", F.col("_metadata.file_path").alias(_FILE))
    rows = frame.where(chosen.column()).groupBy("origin", _FILE).count()
    with nullcontext() if chosen.where is None else limited(spark, chosen.within):
        found = rows.collect()
    if before is not None:
        erased = _erase(spark, files, {row[_FILE] for row in found}, chosen, before)
        found = found if erased is None else erased
    origins: Counter[str] = Counter()
    for row in found:
        origins[row["origin"]] += row["count"]
    return Erasure(origins.total(), len({row[_FILE] for row in found}), dict(sorted(origins.items())))


def _erase(
    spark: SparkSession, files: LakeFiles, names: Iterable[str], chosen: Predicate, before: int
) -> list[Row] | None:
    """Erase, and count what was erased, if another process has written to the table since the version ``before``."""
    found = None
    listed = _listed({_day_of(name) for name in names})
    if listed:
        old = spark.read.format("delta").load(files.root).where(f"day IN ({listed})")
        # Columns that an earlier version did not write are null.
        lacking = {
            each.name: F.lit(None).cast(each.dataType) for each in ARCHIVE_SCHEMA if each.name not in old.columns
        }
        # The other rows are also those for which the condition is unknown, because a column is null.
        meant = F.coalesce(chosen.column(), F.lit(False))  # noqa: FBT003 - the value
        rows = old.withColumns(lacking).where(~meant).select(*old.columns)
        rows = rows.hint("rebalance", *partition_columns(spark, files))
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"day IN ({listed})")
        token = secrets.token_hex(8)
        writer.option("userMetadata", token).save(files.root)
        ours = _version(spark, files, token)
        if ours != before + 1:
            replaced = spark.read.option("versionAsOf", ours - 1).format("delta").load(files.root).withColumns(lacking)
            met = replaced.where(f"day IN ({listed})").where(chosen.column())
            found = met.groupBy("origin", F.col("_metadata.file_path").alias(_FILE)).count().collect()
    # A table with deletion vectors still has rows that others have deleted.
    spark.sql(f"REORG TABLE {_name(files)} APPLY (PURGE)")
    with _setting(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        spark.sql(f"VACUUM {_name(files)} RETAIN 0 HOURS")
    return found


def _version(spark: SparkSession, files: LakeFiles, token: str | None = None) -> int:
    """Return the last version of the table, or the one that has been written with a token."""
    last = " LIMIT 1" if token is None else ""
    history = spark.sql(f"DESCRIBE HISTORY {_name(files)}{last}")
    chosen = history if token is None else history.where(F.col("userMetadata") == token)
    return int(chosen.collect()[0]["version"])


def _origin_is(pattern: str) -> Column:
    """Return the condition of a source topic, with the wildcards of ``redelivery dlq --origin``."""
    origin = F.col("origin")
    # Equality lets Spark skip files by the statistics of a Delta table.
    return origin.rlike(expression(pattern)) if _WILDCARDS & set(pattern) else origin == pattern


def expression(pattern: str) -> str:
    """Return the regular expression of a pattern. Spark looks for one anywhere in a text."""
    return rf"\A{translate(pattern)}"


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
    found = [(_day_of(name), name) for name in _names(spark, files)]
    number = Counter(day for day, _ in found)
    return Counter(day for day, name in found if number[day] > 1 and files.size(name) < _SMALL_BYTES)


def _day_of(name: str) -> str:
    """Return the day of a file, which its last folder but that of the origin names."""
    return str(_DAY.findall(name)[-1])


def _names(spark: SparkSession, files: LakeFiles) -> list[str]:
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
    return f"delta.`{files.root.replace('`', '``')}`"
