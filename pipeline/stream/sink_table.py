"""The sink table: a second query appends the records that handlers send to one topic, each exactly once.

The main query writes the topic in transactions. This query reads committed records only, and Spark's sinks append each
micro-batch once even if it is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.errors import StreamRefusedError
from kafka_redelivery.pipeline.lake.table import TableFormat, refuse_other_format, utc_day
from kafka_redelivery.topology.config.pipeline_section import SinkSection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

COLUMNS: Final = ("day", "key", "value", "headers", "partition", "offset", "timestamp")
"""The columns of the table."""

CHECKPOINT: Final = "_checkpoint"
"""A folder below the table that readers ignore. It belongs to the table: without it, all records are appended again."""


def validate_sink(sink: SinkSection, counts: Mapping[str, int]) -> None:
    """Refuse a sink that cannot be written.

    Raises:
        StreamRefusedError: the topic does not exist, or ``partitionBy`` names an unknown column.
    """
    if sink.topic not in counts:
        raise StreamRefusedError(f"pipeline.sink: there is no topic {sink.topic}; create it")
    unknown = [name for name in sink.partition_by if name not in COLUMNS]
    if unknown:
        raise StreamRefusedError(
            f"pipeline.sink.partitionBy: the table has no column {unknown[0]}; it has {', '.join(COLUMNS)}"
        )


def append_writer(
    session: SparkSession, options: Mapping[str, str], sink: SinkSection, path: str, max_offsets: int
) -> DataStreamWriter:
    """Return the query, to be started with a trigger.

    Args:
        session: the session to run in.
        options: options of the Kafka source.
        sink: the section ``pipeline.sink``.
        path: the path of the table.
        max_offsets: the maximum number of offsets per micro-batch.

    Raises:
        TableFormatError: the table has another format.
    """
    refuse_other_format(session, path, TableFormat(sink.format))
    read = (
        session.readStream.format("kafka")
        .options(**options)
        .option("subscribe", sink.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", str(max_offsets))
        .load()
    )
    writer = table_rows(read).writeStream.format(sink.format).outputMode("append")
    writer = writer.option("path", path).option("checkpointLocation", f"{path.rstrip('/')}/{CHECKPOINT}")
    return writer.partitionBy(*sink.partition_by)


def table_rows(records: DataFrame) -> DataFrame:
    """Convert Kafka records to rows of the table."""
    return records.select(
        utc_day("timestamp").alias("day"), "key", "value", "headers", "partition", "offset", "timestamp"
    )
