"""Copies dead letters into a table of the lake, each exactly once, also after crashes and restarts.

A query of Structured Streaming reads the topics. Its checkpoint records the offsets of each micro-batch, and the log of
the Delta table records the micro-batches that are in the table. Files of an interrupted micro-batch are not in the log:
readers ignore them, and the micro-batch is written again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_redelivery.pipeline.archive.dead_letters import dead_letters
from kafka_redelivery.pipeline.archive.decoding import SourceCodecs
from kafka_redelivery.pipeline.archive.delta_table import DELTA_CONFIGURATION, partition_columns
from kafka_redelivery.pipeline.archive.positions import Positions, RemovedLetters, archived_offsets, positions
from kafka_redelivery.pipeline.errors import LettersRemovedError, QueryFailedError, without_stack
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.kafka_checkpoint import forget_topics, note_topics, older_topics
from kafka_redelivery.pipeline.lake.table import CHECKPOINT, check_table
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options
from kafka_redelivery.topology.config.settings import Settings

_log = logging.getLogger(__name__)

DEFAULT_BATCH: Final = 200_000
"""The default number of dead letters in a micro-batch."""

_POLL_S: Final = 1

_CONFIGURATION: Final = {
    # Limit Arrow batches by bytes: a dead letter may have a megabyte.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 2**20),
    # The amount that one task writes, see _start.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(32 * 2**20),
    **DELTA_CONFIGURATION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A table and the configuration whose dead letters it receives."""

    settings: Settings
    codecs: SourceCodecs
    output: str
    """The folder of the table: a path, or a URI of a file system that Spark supports."""

    batch: int = DEFAULT_BATCH
    """The maximum number of dead letters in a micro-batch."""

    @property
    def checkpoint(self) -> str:
        """The folder of the query's checkpoint."""
        return f"{self.output.rstrip('/')}/{CHECKPOINT}"

    @classmethod
    def of(cls, settings: Settings, base: Path, output: str) -> Archive:
        """Return an archive with default settings; ``base`` is the folder of the configuration."""
        return cls(settings=settings, codecs=SourceCodecs.of(settings, base), output=output)


@dataclass(slots=True)
class ArchiveRun:
    """The result of a run."""

    batches: dict[int, int] = field(default_factory=dict)
    """The number of dead letters by micro-batch."""

    removed: list[RemovedLetters] = field(default_factory=list)
    missing: tuple[str, ...] = ()

    @property
    def letters(self) -> int:
        """The number of dead letters that were written."""
        return sum(self.batches.values())


def archive_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same application with the settings that the table requires."""
    session = spark.newSession()
    for name, value in _CONFIGURATION.items():
        session.conf.set(name, value)
    return session


def read_positions(spark: SparkSession, archive: Archive) -> Positions:
    """Return what is archived and what the topics hold beyond.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        TransportError: Kafka does not answer.
    """
    found = positions(archive.settings, archived_offsets(spark, archive.checkpoint))
    return found.forgetting(older_topics(LakeFiles(spark, archive.checkpoint), found.marks))


def count_pending(spark: SparkSession, archive: Archive, found: Positions) -> dict[tuple[str, int], int]:
    """Count the dead letters of each topic partition that a run would archive now. Reads them, writes nothing."""
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
    on_progress: Callable[[ArchiveRun], None] = lambda _: None,
    stop: Event | None = None,
) -> ArchiveRun:
    """Archive the dead letters that exist now.

    Args:
        spark: a session of :func:`archive_session`.
        archive: the configuration and the table.
        skip_removed: continue without dead letters that Kafka removed before they were archived.
        on_progress: called about once a second.
        stop: when set, the run ends early; the next run continues there.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        LettersRemovedError: Kafka removed dead letters, and ``skip_removed`` is false.
        QueryFailedError: Spark failed. The next run continues where this one ended.
        TableFormatError: the table is one of Parquet, or the session does not have Delta.
        TransportError: Kafka does not answer.
    """
    check_table(spark, archive.output)
    found = read_positions(spark, archive)
    run = ArchiveRun(removed=found.removed, missing=found.missing)
    if run.removed and not skip_removed:
        raise LettersRemovedError([each.location for each in run.removed])
    if not found.topics:
        return run
    files = LakeFiles(spark, archive.checkpoint)
    for topic in found.created_again:
        _log.warning(
            "topic %s was deleted and created again: the new one is archived from its start; dead letters of the older "
            "one that were not archived are gone with it",
            topic,
        )
    forget_topics(files, found.created_again)
    note_topics(files, found.marks)
    query = _start(spark, archive, found, skip_removed=skip_removed)
    try:
        while not query.awaitTermination(_POLL_S) and not (stop is not None and stop.is_set()):
            _note(query, run)
            on_progress(run)
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
    layout = partition_columns(spark, LakeFiles(spark, archive.output))
    # One task gets the dead letters of a partition of the table, because each task writes a file for each of them.
    # Spark splits one that is much larger than others.
    letters = dead_letters(records, archive.codecs, found.marks).hint("rebalance", *layout)
    writer = letters.writeStream.queryName("archive").format("delta").partitionBy(*layout)
    writer = writer.option("compression", "zstd")
    # A table of an earlier version gets the columns of this one.
    writer = writer.option("mergeSchema", "true")
    writer = writer.option("checkpointLocation", archive.checkpoint).trigger(availableNow=True)
    return writer.start(archive.output)


def _note(query: StreamingQuery, run: ArchiveRun) -> None:
    for progress in query.recentProgress:
        if progress.numInputRows:
            run.batches[progress.batchId] = progress.numInputRows
