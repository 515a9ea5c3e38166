"""The sink table: a second query appends the records that handlers send to one topic, each exactly once.

The main query writes the topic in transactions. This query reads committed records only, and Spark's sinks append each
micro-batch once even if it is repeated. Its failures do not end the handling of records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.pipeline.errors import PipelineRefusedError, first_line
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.kafka_checkpoint import begin_anew, next_offsets, older_topics
from kafka_redelivery.pipeline.lake.table import CHECKPOINT, check_table, utc_day
from kafka_redelivery.pipeline.spark.session import clone_of
from kafka_redelivery.pipeline.stream.lost_positions import is_data_loss
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor, is_idle
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.config.settings import PipelineSection, Settings, SinkSection
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kafka_redelivery.pipeline.frames import Frames

_log = logging.getLogger(__name__)

_SUBJECT: Final = "pipeline.sink"
_BACKOFF: Final = Backoff(1.0, 300.0)
_REPORT_INTERVAL_S: Final = 1.0

COLUMNS: Final = ("day", "key", "value", "headers", "partition", "offset", "timestamp")
"""The columns of the table."""

_AUTO_COMPACTION: Final = "spark.databricks.delta.autoCompact.enabled"


def compacting(spark: SparkSession) -> SparkSession:
    """Return a clone of a session in which Delta merges the small files of a folder after an append.

    The session stays as it is. If it says whether to merge, that applies.
    """
    clone = clone_of(spark)
    if clone.conf.get(_AUTO_COMPACTION, None) is None:
        clone.conf.set(_AUTO_COMPACTION, "true")
    return clone


def validate_sink(
    sink: SinkSection | None, counts: Mapping[str, int], columns: Collection[str] = COLUMNS, *, skip_removed: bool
) -> None:
    """Refuse a sink that cannot be written.

    Raises:
        PipelineRefusedError: the topic does not exist, ``partitionBy`` names an unknown column, or there is no sink of
            which records were to be skipped.
    """
    if sink is None:
        if skip_removed:
            raise PipelineRefusedError("--skip-removed is for the table of pipeline.sink, and there is none; remove it")
        return
    if sink.topic not in counts:
        raise PipelineRefusedError(f"pipeline.sink: there is no topic {sink.topic}; create it")
    unknown = [name for name in sink.partition_by if name not in columns]
    if unknown:
        raise PipelineRefusedError(
            f"pipeline.sink.partitionBy: the table has no column {unknown[0]}; it has {', '.join(columns)}"
        )


@dataclass(frozen=True, slots=True)
class SinkTable:
    """The table of a query, and where its records come from."""

    frames: Frames
    settings: Settings
    section: PipelineSection
    sink: SinkSection
    path: str
    topics: ReadTopics
    """The topic of the sink."""

    rows: Callable[[DataFrame], DataFrame]
    """Converts records of the topic to rows of the table."""

    @property
    def checkpoint(self) -> str:
        """The folder of the checkpoint."""
        return f"{self.path.rstrip('/')}/{CHECKPOINT}"

    def writer(self, *, skip_removed: bool) -> DataStreamWriter:
        """Return the query that appends, to be started with a trigger.

        Args:
            skip_removed: go on without records that Kafka has removed, and log which these are.

        Raises:
            PipelineRefusedError: the table is one of Parquet, or the session does not have Delta.
            ReaderError: Kafka does not answer.
        """
        check_table(self.frames.spark, self.path)
        self.topics.look()
        files = LakeFiles(self.frames.spark, self.checkpoint)
        begin_anew(files, older_topics(files, self.topics.marks), self.topics.marks)
        if skip_removed:
            self._log_removed(next_offsets(files))
        at_most = self.section.max_offsets_per_trigger
        read = self.frames.stream({"subscribe": self.sink.topic}, "earliest", at_most, skip_removed=skip_removed)
        # Each task writes a file of its own into each folder.
        rows = self.rows(read).coalesce(self.sink.files)
        writer = rows.writeStream.queryName(f"{self.settings.group}: table").format("delta")
        writer = writer.outputMode("append").partitionBy(*self.sink.partition_by)
        return writer.option("path", self.path).option("checkpointLocation", self.checkpoint)

    def _log_removed(self, noted: Mapping[Partition, int]) -> None:
        log_starts = PartitionOffsets(self.settings.kafka).log_start_offsets(noted)
        for partition, first in sorted(noted.items()):
            last = log_starts[partition] - 1
            if first <= last:
                _log.warning("not in the table, because Kafka has removed them: %s-%d@%d..%d", *partition, first, last)


def table_rows(records: DataFrame) -> DataFrame:
    """Convert Kafka records to rows of the table."""
    return records.select(
        utc_day("timestamp").alias("day"), "key", "value", "headers", "partition", "offset", "timestamp"
    )


@dataclass
class TableQuery:
    """Starts the query, and starts it again after growing pauses when it has failed. Only the main thread uses it.

    It goes on while the query that handles records is started again.
    """

    table: SinkTable
    monitor: QueryMonitor
    skip_removed: bool
    """Whether to go on without records that Kafka has removed until now. A later removal is a failure again."""

    _query: StreamingQuery | None = field(default=None, init=False)
    _failing: bool = field(default=False, init=False)
    _backoff: Backoff = field(default=_BACKOFF, init=False)
    """When the query is started again (monotonic)."""

    _reported_s: float = field(default=0.0, init=False)
    _batch: int | None = field(default=None, init=False)
    """The last micro-batch of the query that was reported."""

    def start(self) -> None:
        """Start the query.

        Raises:
            PipelineRefusedError: the table is one of Parquet, or the session does not have Delta.
        """
        self.monitor.observer.table_progress()
        self._start(PipelineRefusedError)

    def check(self) -> None:
        """Report progress or a failure, or start again when the pause is over."""
        query = self._query
        if query is None:
            if self._backoff.is_due(monotonic_s()):
                self._start()
        elif not query.isActive:
            error = query.exception()
            self._failed("it was stopped" if error is None else cause_of(error))
        elif self.table.topics.poll():
            query.stop()
            self._start()
        elif monotonic_s() - self._reported_s >= _REPORT_INTERVAL_S:
            self._reported_s = monotonic_s()
            self._report(query)

    def stop(self) -> None:
        """Stop the query. It continues where it was when it is started again."""
        if self._query is not None:
            self._query.stop()

    def _report(self, query: StreamingQuery) -> None:
        progress = query.lastProgress
        # A query without progress has just been started: it is idle, too, and may fail in its first micro-batch.
        if progress is None or (progress.batchId == self._batch and not is_idle(query)):
            return
        self._batch = progress.batchId
        self.monitor.observer.table_progress()
        if self._failing:
            self._failing, self._backoff = False, _BACKOFF
            self.monitor.health.note(_SUBJECT, "")
            _log.warning("the query of pipeline.sink appends to its table again")
        if self.skip_removed:
            self.skip_removed = False
            query.stop()
            self._start()

    def _start(self, *refused: type[Exception]) -> None:
        self._batch = None
        try:
            writer = self.table.writer(skip_removed=self.skip_removed)
            self._query = triggered(writer, self.table.sink.trigger).start()
        except refused:
            raise
        except Exception as error:  # noqa: BLE001 - of Spark, or of the storage
            self._failed(cause_of(error))

    def _failed(self, cause: str) -> None:
        problem = (
            f"the query of pipeline.sink failed: {cause}; records are handled, but not appended to the table; "
            f"it is tried again, after at most {_BACKOFF.longest_s:g} s"
        )
        _log.error("%s", problem)
        self.monitor.health.note(_SUBJECT, problem)
        self._query, self._failing = None, True
        self._backoff = self._backoff.failed(monotonic_s())


def triggered(writer: DataStreamWriter, every: timedelta) -> DataStreamWriter:
    """Return a query that begins a micro-batch at each interval."""
    return writer.trigger(processingTime=f"{round(every.total_seconds() * 1000)} milliseconds")


def cause_of(error: BaseException) -> str:
    """Return why the query failed, with the fix if there is one."""
    removed = "; to go on without the records that Kafka removed, start the query once with --skip-removed"
    return f"{first_line(error)}{removed if is_data_loss(error) else ''}"
