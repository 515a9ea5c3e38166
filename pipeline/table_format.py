"""The formats of tables in the lake, and what a session needs for them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pipeline.spark_jars import DELTA, JarSet


class TableFormat(StrEnum):
    """What a table is stored as."""

    PARQUET = "parquet"
    DELTA = "delta"

    @property
    def settings(self) -> dict[str, str]:
        """What a session must be started with."""
        return dict(_DELTA_SETTINGS) if self is TableFormat.DELTA else {}

    @property
    def jars(self) -> tuple[JarSet, ...]:
        """What a session must have."""
        return (DELTA,) if self is TableFormat.DELTA else ()


_DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # As with shuffles: of the default 50 most would be empty.
    "spark.databricks.delta.snapshotPartitions": "8",
}
