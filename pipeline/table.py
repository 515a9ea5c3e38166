"""The table that takes what handlers send to one topic: a second query, which appends each record exactly once.

The first query writes that topic in its transactions; this one reads what is committed there, and Spark's own sinks
make an append of a micro-batch that is repeated a single one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pipeline.days import utc_day
from pipeline.errors import StreamRefusedError
from pipeline.table_format import TableFormat
from topology.pipeline_settings import SinkSection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

COLUMNS: Final = ("day", "key", "value", "headers", "partition", "offset", "timestamp")
"""Of the table."""

CHECKPOINT: Final = "_checkpoint"
"""Below the table, where readers do not look: without its own checkpoint a table would be appended to anew."""


def refuse(sink: SinkSection, counts: Mapping[str, int]) -> None:
    """Refuse a table that cannot be written.

    Raises:
        StreamRefusedError: its topic is not there, or it is divided by a column that it has not.
    """
    if sink.topic not in counts:
        raise StreamRefusedError(f"pipeline.sink: there is no topic {sink.topic}; create it")
    unknown = [name for name in sink.partition_by if name not in COLUMNS]
    if unknown:
        raise StreamRefusedError(
            f"pipeline.sink.partitionBy: the table has no column {unknown[0]}; it has {', '.join(COLUMNS)}"
        )


def appending(session: SparkSession, options: Mapping[str, str], sink: SinkSection, path: str) -> DataStreamWriter:
    """The query, ready to be started with a trigger.

    Args:
        session: to run in.
        options: of the Kafka source.
        sink: what is configured.
        path: of the table.

    Raises:
        TableFormatError: it has another format.
    """
    from pipeline.lake_table import refuse_other_format  # noqa: PLC0415 - an optional dependency

    refuse_other_format(session, path, TableFormat(sink.format))
    read = (
        session.readStream.format("kafka")
        .options(**options)
        .option("subscribe", sink.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .load()
    )
    writer = as_table(read).writeStream.format(sink.format).outputMode("append")
    writer = writer.option("path", path).option("checkpointLocation", f"{path.rstrip('/')}/{CHECKPOINT}")
    return writer.partitionBy(*sink.partition_by)


def as_table(records: DataFrame) -> DataFrame:
    """Records of Kafka as rows of the table."""
    return records.select(
        utc_day("timestamp").alias("day"), "key", "value", "headers", "partition", "offset", "timestamp"
    )
