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

_DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # As with shuffles: of the default 50 partitions most would be empty.
    "spark.databricks.delta.snapshotPartitions": "8",
}
_DAY_MS: Final = 86_400_000


class TableFormat(StrEnum):
    """The storage format of a table."""

    PARQUET = "parquet"
    DELTA = "delta"

    @property
    def settings(self) -> dict[str, str]:
        """Spark settings that a session needs for the format."""
        return dict(_DELTA_SETTINGS) if self is TableFormat.DELTA else {}

    @property
    def jars(self) -> tuple[JarSet, ...]:
        """Jars that a session needs for the format."""
        return (DELTA,) if self is TableFormat.DELTA else ()


_LOGS: Final = {TableFormat.DELTA: "_delta_log", TableFormat.PARQUET: "_spark_metadata"}


def refuse_other_format(spark: SparkSession, path: str, table: TableFormat) -> None:
    """Refuse a table of another format. Read in the wrong format it would show rows twice, or none.

    Raises:
        TableFormatError: the table has another format.
    """
    files = LakeFiles(spark, path)
    for other, log in _LOGS.items():
        if other is not table and files.names(log):
            raise TableFormatError(
                f"{path} is a table of the format {other}, not {table}; set the format (the command's option, or "
                "pipeline.sink.format for the table of a stream), or name another folder"
            )


def read_table(spark: SparkSession, path: str, table: TableFormat, schema: StructType | None = None) -> DataFrame:
    """Read a table.

    Args:
        spark: the session.
        path: the folder of the table.
        table: its format.
        schema: the columns to return. Those that an earlier version did not write are null. ``None`` = those it has.

    Raises:
        TableFormatError: the table does not exist or has another format.
    """
    refuse_other_format(spark, path, table)
    if not LakeFiles(spark, path).names(""):
        raise TableFormatError(f"there is no table at {path}; correct the path, or archive dead letters there first")
    reader = spark.read.format(table)
    if schema is None:
        return reader.load(path)
    if table is TableFormat.PARQUET:
        return reader.schema(schema).load(path)  # inferred, the columns would be those of any one file
    return _with_columns(reader.load(path), schema)


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
