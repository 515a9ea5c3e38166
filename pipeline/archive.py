"""Dead letters into a table of the lake: each exactly once, over kills and restarts.

A query of Structured Streaming reads the topics. Its checkpoint holds which offsets belong to which batch, and the
table's own log (``_spark_metadata`` of Parquet, ``_delta_log`` of Delta) which batches are in it. What a batch leaves
that is cut short is in no log, so no reader of Spark sees it, and the batch is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.archive_errors import LettersRemovedError, QueryFailedError
from pipeline.archive_positions import Positions, Removed, archived_offsets, positions
from pipeline.archive_schema import PARTITION_COLUMNS
from pipeline.dead_letters import dead_letters
from pipeline.decoding import SourceCodecs
from pipeline.kafka_options import kafka_options
from pipeline.lake_table import refuse_other_format
from pipeline.spark_errors import without_stack
from pipeline.table_format import TableFormat
from topology.settings import Settings

CHECKPOINT: Final = "_checkpoint"
"""Below the table, where readers do not look."""

DEFAULT_BATCH: Final = 200_000
"""Dead letters of one batch."""

_LOOK_S: Final = 1

_CONFIGURATION: Final = {
    # Each version of the log holds everything, so that compaction can put one file in the place of another.
    "spark.sql.streaming.fileSink.log.compactInterval": "1",
    # A topic called 001 is not the number 1.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A batch for Python is bounded by bytes: a dead letter may be a megabyte.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 2**20),
    # What one task is given to write, see _together.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(32 * 2**20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Where the letters of a configuration go."""

    settings: Settings
    codecs: SourceCodecs
    output: str
    """The table's folder: a path, or the URI of a file system that Spark knows."""

    format: TableFormat = TableFormat.PARQUET
    batch: int = DEFAULT_BATCH

    @property
    def checkpoint(self) -> str:
        """The query's."""
        return f"{self.output.rstrip('/')}/{CHECKPOINT}"

    @classmethod
    def of(cls, settings: Settings, base: Path, output: str) -> Archive:
        """The archive of a configuration with all else as it is by default; ``base`` is the configuration's folder."""
        return cls(settings=settings, codecs=SourceCodecs.of(settings, base), output=output)


@dataclass(slots=True)
class ArchiveRun:
    """What a run did."""

    batches: dict[int, int] = field(default_factory=dict)
    """Letters by batch."""

    removed: list[Removed] = field(default_factory=list)
    missing: tuple[str, ...] = ()

    @property
    def letters(self) -> int:
        """How many were written."""
        return sum(self.batches.values())


def archive_session(spark: SparkSession) -> SparkSession:
    """A session of the same application with the settings that the table rests on."""
    session = spark.newSession()
    for name, value in _CONFIGURATION.items():
        session.conf.set(name, value)
    return session


def where(spark: SparkSession, archive: Archive) -> Positions:
    """What is archived, and what there is beyond.

    Raises:
        CheckpointError: an earlier run's notes cannot be read.
        TransportError: Kafka does not answer.
    """
    return positions(archive.settings, archived_offsets(spark, archive.checkpoint))


def count_pending(spark: SparkSession, archive: Archive, found: Positions) -> dict[tuple[str, int], int]:
    """How many letters of each topic and partition a run would archive now. Reads them, writes nothing."""
    if not found.topics:
        return {}
    options = {
        **kafka_options(archive.settings.kafka),
        "subscribe": ",".join(found.topics),
        "startingOffsets": found.starting_offsets(),
        "failOnDataLoss": "true",
    }
    counted = spark.read.format("kafka").options(**options).load().groupBy("topic", "partition").count()
    return {(row["topic"], row["partition"]): row["count"] for row in counted.collect()}


def run_archive(
    spark: SparkSession,
    archive: Archive,
    *,
    skip_removed: bool = False,
    told: Callable[[ArchiveRun], None] = lambda _: None,
    ended: Event | None = None,
) -> ArchiveRun:
    """Archive all that is there now.

    Args:
        spark: of :func:`archive_session`.
        archive: what, and where to.
        skip_removed: go on without what was removed from Kafka before it could be archived.
        told: called about once a second.
        ended: set, it ends the run before all is archived; the next one goes on there.

    Raises:
        CheckpointError: an earlier run's notes cannot be read.
        LettersRemovedError: something was removed, and is not to be skipped.
        QueryFailedError: Spark could not go on. The next run goes on where this one ended.
        TableFormatError: the table has another format.
        TransportError: Kafka does not answer.
    """
    refuse_other_format(spark, archive.output, archive.format)
    found = where(spark, archive)
    run = ArchiveRun(removed=found.removed, missing=found.missing)
    if run.removed and not skip_removed:
        raise LettersRemovedError([each.place for each in run.removed])
    if not found.topics:
        return run
    query = _start(spark, archive, found, skip_removed=skip_removed)
    try:
        while not query.awaitTermination(_LOOK_S) and not (ended is not None and ended.is_set()):
            _note(query, run)
            told(run)
    except PySparkException as error:
        raise QueryFailedError(without_stack(error)) from error
    finally:
        query.stop()
        _note(query, run)
    return run


def _start(spark: SparkSession, archive: Archive, found: Positions, *, skip_removed: bool) -> StreamingQuery:
    options = {
        **kafka_options(archive.settings.kafka),
        "subscribe": ",".join(found.topics),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false" if skip_removed else "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(archive.batch),
    }
    records = spark.readStream.format("kafka").options(**options).load()
    writer = _together(dead_letters(records, archive.codecs)).writeStream.queryName("archive")
    writer = writer.format(archive.format).partitionBy(*PARTITION_COLUMNS).option("compression", "zstd")
    writer = writer.option("checkpointLocation", archive.checkpoint).trigger(availableNow=True)
    return writer.start(archive.output)


def _together(letters: DataFrame) -> DataFrame:
    """Letters of a day and origin in one task, for each task writes a file of its own for each of them.

    Where that would be much more than other tasks have, Spark divides it.
    """
    return letters.hint("rebalance", *PARTITION_COLUMNS)


def _note(query: StreamingQuery, run: ArchiveRun) -> None:
    for progress in query.recentProgress:
        if progress.numInputRows:
            run.batches[progress.batchId] = progress.numInputRows
