"""Converts tables of Parquet, as earlier versions wrote archives and sink tables, to Delta Lake.

Delta writes a log that names the files of the table. No file of the table is changed or copied. The log is written in
one step: before it the table is one of Parquet, after it one of Delta.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.archive.delta_table import STATISTICS, STATISTICS_SETTING
from kafka_redelivery.pipeline.errors import PipelineError, PipelineRefusedError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import CHECKPOINT, DELTA_LOG, PARQUET_LOG, check_delta, is_delta

_COMPACTION: Final = "_compaction"
"""Where earlier versions kept what they needed for the compaction of a table."""

_TYPES: Final = {"day": "DATE", "origin": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP"}
"""Columns that divide a table."""

_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'


class Conversion(NamedTuple):
    """What was converted, or would be."""

    rows: int
    files: int


def convert(spark: SparkSession, path: str, *, dry_run: bool = False) -> Conversion | None:
    """Convert a table in its folder. No other process may write to it. If it is interrupted, it can be repeated.

    Args:
        spark: a session with Delta.
        path: the folder of the table.
        dry_run: count only.

    Returns:
        ``None`` if it is a Delta table already.

    Raises:
        PipelineError: the table was moved, or Delta finds another number of rows. It is unchanged.
        PipelineRefusedError: there is no table, or the session does not have Delta.
    """
    check_delta(spark, path)
    files = LakeFiles(spark, path)
    if is_delta(files):
        if not dry_run:
            _forget_parquet(files)
        return None
    there = {_path(uri) for uri in files.files()}
    # Files beside a checkpoint are what a killed run has left before it wrote the first version.
    if not files.names(PARQUET_LOG) and (not there or files.names(CHECKPOINT)):
        raise PipelineRefusedError(f"there is no table at {path}; correct the path")
    table = spark.read.schema("day DATE").parquet(files.root)
    named = {_path(uri) for uri in table.inputFiles()}  # those that its log names, or all if it has none
    elsewhere = sorted(named - there)
    if elsewhere:
        raise PipelineError(
            f"the log of the table {files.root} names files that do not exist there, such as {elsewhere[0]}: the "
            "table was moved, or its path is written differently; nothing was changed"
        )
    rows = table.count()
    if not dry_run:
        _commit_last_batch(files)
        if named:
            _write_log(spark, files, _divided_by(files, next(iter(named))), rows)
        _forget_parquet(files)
    return Conversion(rows, len(named))


def _commit_last_batch(files: LakeFiles) -> None:
    """Let the query go on after the last micro-batch that is in the table, which a killed run did not commit.

    The query would repeat it, and only the log of Parquet knows that the table has it.
    """
    written = [int(name.removesuffix(".compact")) for name in files.names(PARQUET_LOG) if name[0].isdigit()]
    last = str(max(written, default=-1))
    if last in files.names(f"{CHECKPOINT}/offsets") and last not in files.names(f"{CHECKPOINT}/commits"):
        files.write(f"{CHECKPOINT}/converted", _COMMITTED)
        files.move(f"{CHECKPOINT}/converted", f"{CHECKPOINT}/commits/{last}")


def _divided_by(files: LakeFiles, file: str) -> list[str]:
    """Return the columns that divide the table, from the path of a file."""
    folders = file.removeprefix(f"{files.path}/").split("/")[:-1]
    return [folder.partition("=")[0] for folder in folders]


def _write_log(spark: SparkSession, files: LakeFiles, divided_by: list[str], rows: int) -> None:
    is_archive = "dead_lettered_at" in spark.read.parquet(files.root).columns
    if is_archive and "day" not in divided_by:
        raise PipelineError(
            f"the archive {files.root} is not divided by day; write it into another folder with Spark: "
            "write.format('delta').partitionBy('day')"
        )
    session = spark.newSession()
    if is_archive:  # Delta refuses statistics of what divides the table
        session.conf.set(STATISTICS_SETTING, ",".join(name for name in STATISTICS if name not in divided_by))
    columns = ", ".join(f"`{name}` {_TYPES.get(name, 'BINARY')}" for name in divided_by)
    divided = f" PARTITIONED BY ({columns})" if columns else ""
    session.sql(f"CONVERT TO DELTA parquet.`{files.root.replace('`', '``')}`{divided}")
    converted = session.read.format("delta").load(files.root).count()
    if converted != rows:
        files.delete(DELTA_LOG)
        raise PipelineError(f"{rows} rows became {converted} in {files.root}; the table is unchanged")


def _forget_parquet(files: LakeFiles) -> None:
    files.delete(PARQUET_LOG)
    files.delete(_COMPACTION)


def _path(uri: str) -> str:
    """Return the path in a URI, whichever of the ways of writing it Spark has chosen."""
    return unquote(urlsplit(uri).path)
