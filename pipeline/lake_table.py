"""A table of the lake, read in the format that it has."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from pipeline.archive_errors import TableFormatError
from pipeline.lake_files import LakeFiles
from pipeline.table_format import TableFormat

_LOGS = {TableFormat.DELTA: "_delta_log", TableFormat.PARQUET: "_spark_metadata"}


def refuse_other_format(spark: SparkSession, path: str, table: TableFormat) -> None:
    """Refuse a table of another format: read as this one, it would have rows twice, or none.

    Raises:
        TableFormatError: it is one.
    """
    files = LakeFiles(spark, path)
    for other, log in _LOGS.items():
        if other is not table and files.names(log):
            raise TableFormatError(
                f"{path} is a table of the format {other}, not {table}; say so with the option for it, of a stream's "
                "table with pipeline.sink.format, or give another folder"
            )


def read_table(spark: SparkSession, path: str, table: TableFormat) -> DataFrame:
    """The rows of a table.

    Raises:
        TableFormatError: it has another format, or there is none.
    """
    refuse_other_format(spark, path, table)
    if not LakeFiles(spark, path).names(""):
        raise TableFormatError(f"there is no table at {path}; correct its name, or archive something into it first")
    return spark.read.format(table).load(path)
