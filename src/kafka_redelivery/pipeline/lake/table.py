"""Tables of the lake: their formats, reading them, and the day column that divides them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.errors import TableFormatError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.spark.jars import DELTA, JarSet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DAY_MS: Final = 86_400_000


class TableFormat(StrEnum):
    """The storage format of a table."""

    PARQUET = "parquet"
    DELTA = "delta"


DELTA_LOG: Final = "_delta_log"
_LOGS: Final = {TableFormat.DELTA: DELTA_LOG, TableFormat.PARQUET: "_spark_metadata"}


def table_jars(wanted: TableFormat | None) -> tuple[JarSet, ...]:
    """Return the jars of a session for a table, without those for Kafka; ``None`` = its format is not known yet."""
    return () if wanted is TableFormat.PARQUET else (DELTA,)


def table_format(spark: SparkSession, path: str, wanted: TableFormat | None = None) -> TableFormat:
    """Return the format of a table: the one it has; that of a new one is Delta where the session has Delta.

    Args:
        spark: the session.
        path: the folder of the table; it need not exist.
        wanted: the format that it has to have; ``None`` = any.

    Raises:
        TableFormatError: the table has another format, or the session does not have Delta. Read in the wrong format it
            would show rows twice, or none.
    """
    found = _format_of(spark, path)
    if found is not None and wanted not in {None, found}:
        raise TableFormatError(
            f"{path} is a table of the format {found}, not {wanted}; leave the format out (the command's option, or "
            "pipeline.sink.format for the table of a stream), or name another folder"
        )
    chosen = found or wanted or (TableFormat.DELTA if _has_delta(spark) else TableFormat.PARQUET)
    if chosen is TableFormat.DELTA and not _has_delta(spark):
        raise TableFormatError(
            f"{path} is to be a Delta table, and this Spark session has no Delta Lake: start it with Delta's jars and "
            "settings (docs/spark.md), or choose the format parquet for a new table"
        )
    return chosen


def read_table(
    spark: SparkSession, path: str, wanted: TableFormat | None = None, schema: StructType | None = None
) -> DataFrame:
    """Read a table.

    Args:
        spark: the session.
        path: the folder of the table.
        wanted: the format that it has to have; ``None`` = any.
        schema: the columns to return. Those that an earlier version did not write are null. ``None`` = those it has.

    Raises:
        TableFormatError: the table does not exist, has another format, or the session does not have Delta.
    """
    # Without a log, what is there are files of Parquet.
    found = table_format(spark, path, wanted or _format_of(spark, path) or TableFormat.PARQUET)
    if not LakeFiles(spark, path).names(""):
        raise TableFormatError(f"there is no table at {path}; correct the path, or archive dead letters there first")
    reader = spark.read.format(found)
    if schema is None:
        return reader.load(path)
    if found is TableFormat.PARQUET:
        return reader.schema(schema).load(path)  # inferred, the columns would be those of any one file
    return _with_columns(reader.load(path), schema)


def _format_of(spark: SparkSession, path: str) -> TableFormat | None:
    files = LakeFiles(spark, path)
    return next((each for each, log in _LOGS.items() if files.names(log)), None)


def _has_delta(spark: SparkSession) -> bool:
    return DELTA.main_class in (spark.conf.get("spark.sql.extensions", "") or "")


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
