"""The sink table: a second query appends the records that handlers send to one topic, each exactly once.

The main query writes the topic in transactions. This query reads committed records only, and Spark's sinks append each
micro-batch once even if it is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.errors import StreamRefusedError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.kafka_checkpoint import forget_topics, note_topics, older_topics
from kafka_redelivery.pipeline.lake.table import CHECKPOINT, check_table, utc_day
from kafka_redelivery.pipeline.stream.checkpoint import checkpoint_offsets
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.topology.config.pipeline_section import PipelineSection, SinkSection
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

COLUMNS: Final = ("day", "key", "value", "headers", "partition", "offset", "timestamp")
"""The columns of the table."""

AUTO_COMPACTION: Final = {"spark.databricks.delta.autoCompact.enabled": "true"}
"""After an append Delta merges small files of a folder if there are many."""


def validate_sink(sink: SinkSection | None, counts: Mapping[str, int], *, skip_removed: bool) -> None:
    """Refuse a sink that cannot be written.

    Raises:
        StreamRefusedError: the topic does not exist, ``partitionBy`` names an unknown column, or there is no sink of
            which records were to be skipped.
    """
    if sink is None:
        if skip_removed:
            raise StreamRefusedError("--skip-removed is for the table of pipeline.sink, and there is none; remove it")
        return
    if sink.topic not in counts:
        raise StreamRefusedError(f"pipeline.sink: there is no topic {sink.topic}; create it")
    unknown = [name for name in sink.partition_by if name not in COLUMNS]
    if unknown:
        raise StreamRefusedError(
            f"pipeline.sink.partitionBy: the table has no column {unknown[0]}; it has {', '.join(COLUMNS)}"
        )


@dataclass(frozen=True, slots=True)
class SinkTable:
    """The table of a query, and where its records come from."""

    session: SparkSession
    settings: Settings
    section: PipelineSection
    sink: SinkSection
    options: Mapping[str, str]
    """Options of the Kafka source."""

    path: str
    topics: ReadTopics
    """The topic of the sink."""

    @property
    def checkpoint(self) -> str:
        """The folder of the checkpoint."""
        return f"{self.path.rstrip('/')}/{CHECKPOINT}"

    def writer(self, *, skip_removed: bool) -> DataStreamWriter:
        """Return the query that appends, to be started with a trigger.

        Args:
            skip_removed: go on without records that Kafka has removed, and log which these are.

        Raises:
            TableFormatError: the table is one of Parquet, or the session does not have Delta.
            ReaderError: Kafka does not answer.
        """
        check_table(self.session, self.path)
        self._forget_older_topic()
        if skip_removed:
            self._log_removed()
        read = (
            self.session.readStream.format("kafka")
            .options(**self.options)
            .option("subscribe", self.sink.topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "false" if skip_removed else "true")
            .option("maxOffsetsPerTrigger", str(self.section.max_offsets_per_trigger))
            .load()
        )
        # Each task writes a file of its own into each folder.
        rows = table_rows(read).coalesce(self.sink.files)
        writer = rows.writeStream.queryName(f"{self.settings.group}: table").format("delta")
        writer = writer.outputMode("append").partitionBy(*self.sink.partition_by)
        return writer.option("path", self.path).option("checkpointLocation", self.checkpoint)

    def _forget_older_topic(self) -> None:
        """Let the query begin at the start of a topic that was created again. No query may run."""
        self.topics.look()
        files = LakeFiles(self.session, self.checkpoint)
        older = older_topics(files, self.topics.marks)
        for topic in older:
            _log.warning(
                "topic %s was deleted and created again: the table gets the new one from its start; records of the "
                "older one that were not appended are gone with it",
                topic,
            )
        forget_topics(files, older)
        note_topics(files, self.topics.marks)

    def _log_removed(self) -> None:
        next_offsets = checkpoint_offsets(self.session, self.checkpoint)
        log_starts = PartitionOffsets(self.settings.kafka).log_start_offsets(next_offsets)
        for partition, first in sorted(next_offsets.items()):
            last = log_starts[partition] - 1
            if first <= last:
                _log.warning("not in the table, because Kafka has removed them: %s-%d@%d..%d", *partition, first, last)


def table_rows(records: DataFrame) -> DataFrame:
    """Convert Kafka records to rows of the table."""
    return records.select(
        utc_day("timestamp").alias("day"), "key", "value", "headers", "partition", "offset", "timestamp"
    )
