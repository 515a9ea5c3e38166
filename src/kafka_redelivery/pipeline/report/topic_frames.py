"""The inputs of a report as DataFrames: dead letters, retry records, records of ready topics, and the journal."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.condition import condition
from kafka_redelivery.pipeline.archive.dead_letters import dead_letters
from kafka_redelivery.pipeline.archive.decoding import SourceCodecs
from kafka_redelivery.pipeline.archive.positions import letter_topics
from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA, UNKNOWN_ORIGIN
from kafka_redelivery.pipeline.frames.journal_ranges import journal_ranges
from kafka_redelivery.pipeline.frames.kafka_frames import ORIGIN, Frames, header_number, header_text, header_time
from kafka_redelivery.pipeline.frames.progress_frames import (
    PROGRESS_SCHEMA,
    ReaderProgress,
    decode_progress,
    watermark_and_seen,
    with_status,
)
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.policy.failure_details import FailureDetails
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, TIMESTAMP
from kafka_redelivery.topology.wire.topic_mark import is_other_topic, is_void
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.preflight import require_rights
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

UNKNOWN_REASON: Final = "(unknown)"

_KEY_BYTES: Final = 24
_HIDDEN: Final = "(hidden)"
_CUT: Final = 300


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a configuration that exist, with their numbers of partitions."""

    letters: Mapping[str, int]
    tiers: Mapping[str, int]
    """Retry tiers and the mixed topic."""

    ready: Mapping[str, int]
    journal: Mapping[str, int]
    """Empty if the journal is off or its topic does not exist."""

    marks: Mapping[str, str]
    """The mark of each topic; see :mod:`kafka_redelivery.topology.wire.topic_mark`."""

    @property
    def partitions(self) -> list[Partition]:
        """All partitions."""
        return [
            partition
            for each in (self.letters, self.tiers, self.ready, self.journal)
            for partition in partitions_of(each)
        ]

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """Ask Kafka which topics exist.

        Raises:
            MissingRightsError: the user may not read all of them, so their records would not be counted.
            TransportError: Kafka does not answer.
        """
        admin, naming = ClusterAdmin(settings.kafka), settings.naming()
        require_rights(admin, settings, AclRole.REPORT)
        existing = admin.topic_names()
        tiers = [*naming.tiers_among(existing), naming.mixed_topic()]
        ready = [naming.ready_topic(source.topic) for source in settings.sources]
        journal = [naming.journal_topic()] if settings.journal else []
        cluster = admin.describe([*letter_topics(settings), *tiers, *ready, *journal], {})
        facts = cluster.topics

        def of(names: Iterable[str]) -> dict[str, int]:
            return {name: facts[name].partitions for name in names if name in facts}

        return cls(of(letter_topics(settings)), of(tiers), of(ready), of(journal), cluster.marks)


def partitions_of(topics: Mapping[str, int]) -> list[Partition]:
    """Return all partitions of topics with these numbers of partitions."""
    return [Partition(topic, number) for topic, partitions in topics.items() for number in range(partitions)]


class TopicFrames:
    """The frames of one report. All end at the end offsets of one moment, so they are consistent with each other."""

    def __init__(self, spark: SparkSession, settings: Settings, topics: Topics) -> None:
        """Read the first and end offsets of the topics.

        Raises:
            TransportError: Kafka does not answer.
        """
        self._spark = spark
        self._settings = settings
        self._topics = topics
        self._frames = Frames(spark, kafka_options(settings.kafka))
        self._positions = PartitionOffsets(settings.kafka)
        partitions = topics.partitions
        self._starts = self._positions.log_start_offsets(partitions)
        self._ends = self._positions.last_stable_offsets(partitions)

    def letters(self, table: str | None, where: Where | None = None) -> DataFrame:
        """Return one row for each dead letter in the archive, and for each newer one in the topics.

        Args:
            table: the archive; ``None`` = the topics alone.
            where: which letters have true in the column ``selected``; ``None`` = all.

        Raises:
            TableFormatError: the archive is no Delta table.
            PredicateError: ``where`` names a column that the archive does not have.
        """
        archived = None if table is None else read_table(self._spark, table, ARCHIVE_SCHEMA)
        archived_ends: dict[Partition, int] = {}
        if archived is not None:
            last = archived.groupBy("topic", "partition", "topic_mark").agg(F.max("offset").alias("last"))
            archived_ends = self._archived_ends(last.collect())
        details = self._settings.failure_details
        newer = dead_letters(
            self._records(self._topics.letters, archived_ends),
            SourceCodecs({}, "", details=details),
            self._topics.marks,
        )
        whole = newer if archived is None else newer.unionByName(archived)
        selected = F.lit(True) if where is None else condition(where)  # noqa: FBT003 - a literal
        return _for_report(whole.withColumn("selected", F.coalesce(selected, F.lit(False))), details)  # noqa: FBT003

    def _archived_ends(self, rows: Iterable[Row]) -> dict[Partition, int]:
        """Return the offset after the last archived one of each partition that the topics have now.

        Rows of earlier versions name no topic. They count as long as no row names the present one.

        Args:
            rows: the last offset of each topic, partition and mark.
        """
        named: dict[Partition, int] = {}
        unnamed: dict[Partition, int] = {}
        for row in rows:
            partition, mark = Partition(row["topic"], row["partition"]), row["topic_mark"] or ""
            present = self._topics.marks.get(partition.topic, "")
            if not is_other_topic(mark, present):
                ends = named if mark and mark == present else unnamed
                ends[partition] = max(ends.get(partition, 0), row["last"] + 1)
        return unnamed | named

    def copies(self) -> DataFrame:
        """Return one row for each record in a tier or a ready topic, finished or not.

        ``topic, partition, offset, place`` (tier or ready), ``at, origin, message_id, deliveries, origin_timestamp``,
        and its ``status`` with the group, from the current commits.

        Raises:
            TransportError: Kafka does not answer.
        """
        names = {**self._topics.tiers, **self._topics.ready}
        progress = self._progress()
        marks = self._frames.local(
            [
                (*partition, *watermark_and_seen(progress.get(partition)))
                for partition in self._starts
                if partition.topic in names
            ],
            PROGRESS_SCHEMA,
        )
        return with_status(self._frames, self._records(names), marks, progress).select(
            *ORIGIN,
            F.when(F.col("topic").isin(*self._topics.ready), "ready").otherwise("tier").alias("place"),
            F.col("timestamp").alias("at"),
            F.coalesce(header_text(ORIG_ADDRESS), F.lit(UNKNOWN_ORIGIN)).alias("origin"),
            header_text(ORIG_MESSAGE_ID).alias("message_id"),
            header_number(DELIVERY_COUNT, "int").alias("deliveries"),
            header_time(TIMESTAMP).alias("origin_timestamp"),
            "status",
        )

    def journal(self) -> DataFrame | None:
        """Return the ranges of the journal: ``topic, partition, outcome, first, last, at``; ``None`` if it is off."""
        if not self._topics.journal:
            return None
        records = self._records(self._topics.journal).withColumnRenamed("timestamp", "at")
        return journal_ranges(records, self._settings.group, "at")

    def _records(
        self, topics: Iterable[str], archived_ends: Mapping[Partition, int] = MappingProxyType({})
    ) -> DataFrame:
        """Return the records of topics, from the offsets in ``archived_ends`` on."""
        names = set(topics)
        return self._frames.records(
            (partition, max(start, archived_ends.get(partition, 0)), self._ends[partition])
            for partition, start in self._starts.items()
            if partition.topic in names
        )

    def _progress(self) -> dict[Partition, ReaderProgress]:
        group = self._settings.group
        found = self._positions.committed(scheduler_group(group), partitions_of(self._topics.tiers))
        found |= self._positions.committed(group, partitions_of(self._topics.ready))
        marks = self._topics.marks
        present = {each: point for each, point in found.items() if not is_void(point.metadata, marks[each.topic])}
        progress, damaged = decode_progress(present)
        for partition in damaged:
            _log.warning(
                "the progress of %s-%d cannot be decoded: some finished records may count as waiting", *partition
            )
        return progress


def _for_report(letters: DataFrame, details: FailureDetails) -> DataFrame:
    """Select the columns of the report. Text is cut and has no control characters.

    With ``class-only`` there are no keys and texts of exceptions, also of dead letters that were archived with them.
    """
    if details.class_only:
        hidden = ("message", "normal_message")
        letters = letters.withColumns(dict.fromkeys(hidden, F.lit("")) | {"key": F.lit(_HIDDEN).cast("binary")})
    return letters.select(
        "topic",
        "partition",
        "offset",
        F.col("dead_lettered_at").alias("at"),
        "day",
        "origin",
        _plain(F.col("origin_group")).alias("group"),
        _plain(F.col("origin_message_id")).alias("message_id"),
        "origin_timestamp",
        F.coalesce("delivery_count", F.lit(0)).alias("deliveries"),
        F.when(F.col("reason").isin(*map(str, Reason)), F.col("reason")).otherwise(UNKNOWN_REASON).alias("reason"),
        F.coalesce("fingerprint", F.lit("")).alias("fingerprint"),
        _plain(F.coalesce("exception", F.lit(""))).alias("exception"),
        _plain(F.coalesce("normal_message", F.lit(""))).alias("normal_message"),
        _plain(F.coalesce("message", F.lit(""))).alias("message"),
        _key_text().alias("key"),
        "selected",
    )


def _key_text() -> Column:
    start = F.substring("key", 1, _KEY_BYTES)
    text = start.cast("string")
    readable = F.is_valid_utf8(text) & ~text.rlike(r"\p{Cntrl}")
    return F.when(readable, text).otherwise(F.concat(F.lit("0x"), F.lower(F.hex(start))))


def _plain(text: Column) -> Column:
    return F.regexp_replace(F.substring(text, 1, _CUT), r"\p{Cntrl}", " ")
