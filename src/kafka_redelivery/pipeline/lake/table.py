"""Tables of the lake: Delta Lake is their format. Reading them, and the day column that divides them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.spark.jars import DELTA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DAY_MS: Final = 86_400_000

CHECKPOINT: Final = "_checkpoint"
"""The folder of the query that appends, below the table. It belongs to the table: without it, all is appended again."""

DELTA_LOG: Final = "_delta_log"
PARQUET_LOG: Final = "_spark_metadata"
"""The log of a table of Parquet, as earlier versions wrote it."""


def is_delta(files: LakeFiles) -> bool:
    """Whether a folder has a Delta table. Its log has a file for each version, which is named by a number."""
    return any(name[0].isdigit() for name in files.names(DELTA_LOG))


def check_delta(spark: SparkSession, path: str) -> None:
    """Refuse a table in a session without Delta.

    Raises:
        PipelineRefusedError: the session has no Delta.
    """
    if DELTA.main_class not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise PipelineRefusedError(
            f"{path} is to be a Delta table, and this Spark session has no Delta Lake: start it with Delta's jars and "
            "settings (docs/spark-jobs.md)"
        )


def check_table(spark: SparkSession, path: str) -> None:
    """Refuse to write to a folder that has a table of Parquet.

    Args:
        spark: the session.
        path: the folder of the table; it need not exist.

    Raises:
        PipelineRefusedError: it has, or the session does not have Delta.
    """
    check_delta(spark, path)
    files = LakeFiles(spark, path)
    if not is_delta(files) and files.names(PARQUET_LOG):
        raise _parquet(path)


def read_table(spark: SparkSession, path: str, schema: StructType | None = None) -> DataFrame:
    """Read a table.

    Args:
        spark: the session.
        path: the folder of the table.
        schema: the columns to return. Those that an earlier version did not write are null. ``None`` = those it has.

    Raises:
        PipelineRefusedError: there is no table, it is one of Parquet, or the session does not have Delta.
    """
    check_table(spark, path)
    files = LakeFiles(spark, path)
    if not is_delta(files):
        # With a checkpoint they are what a killed run has left before it wrote the first version.
        if next(files.files(), None) is not None and not files.names(CHECKPOINT):
            raise _parquet(path)
        raise PipelineRefusedError(
            f"there is no table at {path}; correct the path, or archive dead letters there first"
        )
    frame = spark.read.format("delta").load(path)
    return frame if schema is None else _with_columns(frame, schema)


def _parquet(path: str) -> PipelineRefusedError:
    return PipelineRefusedError(
        f"{path} is a table of Parquet, as earlier versions wrote it; convert it: "
        f"redelivery pipeline convert --table {path}"
    )


def _with_columns(frame: DataFrame, schema: StructType) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    return frame.select(
        *(
            (F.col(each.name) if each.name in frame.columns else F.lit(None)).cast(each.dataType).alias(each.name)
            for each in schema
        )
    )


def utc_day(timestamp: str) -> Column:
    """Return the UTC day of a timestamp column.

    Spark's own date functions use the time zone of the session, which may have been submitted.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    return F.date_from_unix_date(F.floor(F.unix_millis(F.col(timestamp)) / _DAY_MS).cast("int"))
