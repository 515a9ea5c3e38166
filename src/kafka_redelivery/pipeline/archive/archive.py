"""Copies dead letters into a table of the lake, each exactly once, also after crashes and restarts.

A query of Structured Streaming reads the topics. Its checkpoint records the offsets of each micro-batch, and the log of
the Delta table records the micro-batches that are in the table. Files of an interrupted micro-batch are not in the log:
readers ignore them, and the micro-batch is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.pipeline.archive.dead_letters import SourceCodecs, dead_letters
from kafka_redelivery.pipeline.archive.delta_table import (
    DELTA_CONFIGURATION,
    CompactionResult,
    optimize,
    partition_columns,
)
from kafka_redelivery.pipeline.archive.states import update_states
from kafka_redelivery.pipeline.errors import PipelineError, first_line, without_stack
from kafka_redelivery.pipeline.frames import Frames
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.kafka_checkpoint import begin_anew, next_offsets, older_topics
from kafka_redelivery.pipeline.lake.table import CHECKPOINT, check_table, is_delta
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options, partitions_option
from kafka_redelivery.topology.cluster.facts import Bounds
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.errors import TransportError, grant
from kafka_redelivery.transport.protocols import Partition

DEFAULT_BATCH: Final = 200_000
"""The default number of dead letters in a micro-batch."""

_POLL_S: Final = 1
_STATES_S: Final = 600.0
"""After so long a run that others follow brings the states up to date: it writes each file with a changed row again."""

_OTHERS_WRITE: Final = (
    "[CONCURRENT_STREAM_LOG_UPDATE]",
    "Multiple streaming queries are concurrently using",
    "[DELTA_CONCURRENT_TRANSACTION",
    "[DELTA_METADATA_CHANGED",
    "[DELTA_PROTOCOL_CHANGED",
)
"""What Spark and Delta say if two queries have one checkpoint, or two jobs create or change one table."""

_MIN_FILES: Final = 2
_MIN_FILES_FOLLOWING: Final = 16
"""A folder is compacted when it has this many small files, by a run that others follow."""

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

    compact: bool = False
    """Whether to merge small files after a run."""

    skip_removed: bool = False
    """Whether to continue without dead letters that Kafka removed before they were archived."""

    @property
    def checkpoint(self) -> str:
        """The folder of the query's checkpoint."""
        return f"{self.output.rstrip('/')}/{CHECKPOINT}"

    @classmethod
    def of(cls, settings: Settings, base: Path, output: str) -> Archive:
        """Return an archive with default settings; ``base`` is the folder of the configuration."""
        return cls(settings=settings, codecs=SourceCodecs.of(settings, base), output=output)


@dataclass(frozen=True, slots=True)
class RemovedLetters:
    """Dead letters that Kafka removed before they were archived: offsets from ``first`` to ``next``, exclusive."""

    topic: str
    partition: int
    first: int
    next: int

    @property
    def location(self) -> str:
        """The range as ``topic-partition@first..last``."""
        return f"{self.topic}-{self.partition}@{self.first}..{self.next - 1}"


@dataclass(frozen=True, slots=True)
class Positions:
    """The offsets of the dead-letter topics, and the archive's position in them."""

    bounds: Mapping[Partition, Bounds]
    """Of all topics to read. These include all that were archived before, because Spark requires them."""

    archived: Mapping[Partition, int] = field(default_factory=dict)
    """The next offset to archive; empty before the first run."""

    marks: Mapping[str, str] = field(default_factory=dict)
    """The mark of each topic; see :mod:`kafka_redelivery.topology.wire.topic_mark`."""

    created_again: tuple[str, ...] = ()
    """Topics of which older ones were archived. They are archived from their start."""

    missing: tuple[str, ...] = ()
    """Topics of the configuration that do not exist, or may not be described."""

    @property
    def removed(self) -> list[RemovedLetters]:
        """Dead letters that were removed unarchived. Empty before the first run: earlier removals do not count."""
        if not (self.archived or self.created_again):
            return []
        return [
            RemovedLetters(*partition, first, bounds.start)
            for partition, bounds in sorted(self.bounds.items())
            if (first := self.archived.get(partition, 0)) < bounds.start
        ]

    @property
    def deleted(self) -> list[str]:
        """Topics that were archived before, and that the cluster does not show any more."""
        return sorted({topic for topic, _ in self.archived}.intersection(self.missing))

    def without(self, topics: Iterable[str]) -> Positions:
        """Return the positions without what is archived of older topics of these names."""
        older = tuple(topics)
        archived = {each: offset for each, offset in self.archived.items() if each.topic not in older}
        return replace(self, archived=archived, created_again=older)

    def starts(self) -> dict[Partition, int]:
        """Return the offset of the first dead letter of each partition that is not archived."""
        return {each: max(self.archived.get(each, 0), bounds.start) for each, bounds in self.bounds.items()}


@dataclass(slots=True)
class ArchiveRun:
    """The result of a run."""

    batches: dict[int, int] = field(default_factory=dict)
    """The number of dead letters by micro-batch."""

    removed: list[RemovedLetters] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    states: int = 0
    """The number of rows whose state has changed."""

    states_problem: str = ""
    """Why the states are not known; empty if they are."""

    compacted: CompactionResult | None = None
    """``None`` = the table was not to be compacted, or the run was stopped before."""

    @property
    def letters(self) -> int:
        """The number of dead letters that were written."""
        return sum(self.batches.values())


def missing_text(topic: str) -> str:
    """Return what to say about a dead-letter topic that the cluster does not show."""
    return f"topic {topic} does not exist yet, or may not be described{grant(f'Read on topic {topic}')}"


def archive_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same application with the settings that the table requires."""
    session = spark.newSession()
    for name, value in _CONFIGURATION.items():
        session.conf.set(name, value)
    return session


def read_positions(spark: SparkSession, archive: Archive) -> Positions:
    """Return what is archived and what the topics hold beyond.

    Raises:
        PipelineError: the checkpoint cannot be read.
        TransportError: Kafka does not answer.
    """
    files = LakeFiles(spark, archive.checkpoint)
    archived = next_offsets(files)
    wanted = {*sweep_plan(archive.settings).topics, *(topic for topic, _ in archived)}
    facts = ClusterAdmin(archive.settings.kafka).describe(wanted, dict.fromkeys(wanted, ()))
    bounds = {
        Partition(name, number): each for name, topic in facts.topics.items() for number, each in topic.bounds.items()
    }
    missing = tuple(sorted(wanted - facts.topics.keys()))
    found = Positions(bounds, archived, marks=facts.marks, missing=missing)
    return found.without(older_topics(files, found.marks))


def count_pending(spark: SparkSession, archive: Archive, found: Positions) -> dict[tuple[str, int], int]:
    """Count the dead letters of each topic partition that a run would archive now. Reads them, writes nothing."""
    ends = PartitionOffsets(archive.settings.kafka).last_stable_offsets(found.bounds)
    frames = Frames(spark, kafka_options(archive.settings.kafka))
    pending = frames.records(((each, start, ends[each]) for each, start in found.starts().items()), headers=False)
    counted = pending.groupBy("topic", "partition").count().collect()
    return {(row["topic"], row["partition"]): row["count"] for row in counted}


def follow(spark: SparkSession, archive: Archive, every: timedelta, stop: Event) -> Iterator[ArchiveRun]:
    """Archive again and again until ``stop`` is set, and yield the runs that changed something or met a problem.

    Raises:
        PipelineError, TransportError: see :func:`run_archive`.
    """
    next_s = 0.0
    while not stop.is_set():
        states = monotonic_s() >= next_s
        run = run_archive(spark, archive, stop=stop, min_files=_MIN_FILES_FOLLOWING, states=states)
        if states:
            next_s = monotonic_s() + _STATES_S
        changed = run.letters or run.removed or run.states or run.compacted not in {None, CompactionResult()}
        if changed or run.states_problem:
            yield run
        stop.wait(every.total_seconds())


def run_archive(
    spark: SparkSession,
    archive: Archive,
    *,
    on_progress: Callable[[ArchiveRun], None] = lambda _: None,
    stop: Event | None = None,
    min_files: int = _MIN_FILES,
    states: bool = True,
) -> ArchiveRun:
    """Archive the dead letters that exist now, and say of those in the table what became of them.

    Args:
        spark: a session of :func:`archive_session`.
        archive: the configuration and the table.
        on_progress: called about once a second.
        stop: when set, the run ends early; the next run continues there.
        min_files: how many small files a folder has to have to be compacted.
        states: whether to say what became of the letters.

    Raises:
        PipelineError: the checkpoint cannot be read, or Kafka removed dead letters and ``skip_removed`` is false. Or
            Spark failed; the next run continues where this one ended.
        PipelineRefusedError: the table is one of Parquet, or the session does not have Delta.
        TransportError: Kafka does not answer.
    """
    stop = stop or Event()
    check_table(spark, archive.output)
    found = read_positions(spark, archive)
    run = ArchiveRun(removed=found.removed, missing=found.missing)
    if run.removed and not archive.skip_removed:
        raise PipelineError(
            f"removed from Kafka before they were archived: {'; '.join(each.location for each in run.removed)}. "
            "The scheduler removes expired dead letters, the topic's retention removes others. Archive more often than "
            "that; to continue without them, run once with --skip-removed"
        )
    if found.bounds and found.deleted and not archive.skip_removed:
        topic = found.deleted[0]
        raise PipelineError(
            f"topic {topic} was archived before, and was deleted since, or may not be described"
            f"{grant(f'Read on topic {topic}')}; to continue without what it had, run once with --skip-removed"
        )
    if found.bounds:
        _append(spark, archive, found, run, on_progress, stop)
    if states and not stop.is_set():
        _update_states(spark, archive, run)
    if archive.compact and not stop.is_set():
        table = LakeFiles(spark, archive.output)
        now_ms = wall_clock_ms()
        run.compacted = optimize(spark, table, now_ms, min_files=min_files) if is_delta(table) else CompactionResult()
    return run


def _update_states(spark: SparkSession, archive: Archive, run: ArchiveRun) -> None:
    """Bring the states up to date. Whether they are known or not, the letters are archived."""
    try:
        run.states = update_states(spark, archive.output, archive.settings)
    except (ConsumersError, TransportError) as error:
        run.states_problem = str(error)
    except PySparkException as error:
        raise PipelineError(without_stack(error)) from error


def _append(
    spark: SparkSession,
    archive: Archive,
    found: Positions,
    run: ArchiveRun,
    on_progress: Callable[[ArchiveRun], None],
    stop: Event,
) -> None:
    try:
        begin_anew(LakeFiles(spark, archive.checkpoint), found.created_again, found.marks)
        query = _start(spark, archive, found)
        try:
            while not query.awaitTermination(_POLL_S) and not stop.is_set():
                _note(query, run)
                on_progress(run)
        finally:
            query.stop()
            _note(query, run)
    except PySparkException as error:
        raise PipelineError(failed_because(error, archive.output)) from error
    except (Py4JError, OSError) as error:  # of files, as when two archives make the folder of one checkpoint
        raise PipelineError(
            f"{archive.output} cannot be written: {first_line(error)}; if another archive of it runs, run this one "
            "again when that has ended"
        ) from error


def failed_because(error: PySparkException, output: str) -> str:
    """Return why a query has failed, and how to go on if another job is the cause."""
    cause = without_stack(error)
    if any(each in cause for each in _OTHERS_WRITE):
        return (
            f"another archive of {output} runs, or another job changed the table meanwhile: run this one again when it "
            "has ended; each dead letter is in the table once"
        )
    return cause


def _start(spark: SparkSession, archive: Archive, found: Positions) -> StreamingQuery:
    frames = Frames(spark, kafka_options(archive.settings.kafka))
    topics = partitions_option(found.bounds, whole=True)
    records = frames.stream(topics, "earliest", archive.batch, skip_removed=archive.skip_removed)
    layout = partition_columns(spark, LakeFiles(spark, archive.output))
    # One task gets the dead letters of a partition of the table, because each task writes a file for each of them.
    # Spark splits one that is much larger than others.
    letters = dead_letters(records, archive.codecs, found.marks, archive.settings.group).hint("rebalance", *layout)
    writer = letters.writeStream.queryName("archive").format("delta").partitionBy(*layout)
    # A table of an earlier version gets the columns of this one.
    writer = writer.option("mergeSchema", "true")
    writer = writer.option("checkpointLocation", archive.checkpoint).trigger(availableNow=True)
    return writer.start(archive.output)


def _note(query: StreamingQuery, run: ArchiveRun) -> None:
    for progress in query.recentProgress:
        if progress.numInputRows:
            run.batches[progress.batchId] = progress.numInputRows
