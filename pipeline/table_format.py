"""The formats of the archive's table."""

from __future__ import annotations

from enum import StrEnum
from importlib import metadata
from typing import Final

from pipeline.archive_errors import TableFormatError


class TableFormat(StrEnum):
    """What the table is stored as."""

    PARQUET = "parquet"
    DELTA = "delta"
    """Needs ``delta-spark``, which is not among our requirements."""


_DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def session_settings(table: TableFormat) -> dict[str, str]:
    """What a session needs for a format.

    Raises:
        TableFormatError: what the format needs is not installed.
    """
    if table is TableFormat.PARQUET:
        return {}
    try:
        version = metadata.version("delta-spark")
    except metadata.PackageNotFoundError:
        spark = metadata.version("pyspark")
        raise TableFormatError(
            f"Delta needs the package delta-spark, and it is not installed; install the one made for Spark {spark}, "
            "or use --format parquet"
        ) from None
    # Its jars come from Maven when the session starts, unless they were submitted.
    return {**_DELTA_SETTINGS, "spark.jars.packages": f"io.delta:delta-spark_2.13:{version}"}
