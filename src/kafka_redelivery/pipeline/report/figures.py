"""The figures of a report as DataFrames.

:class:`TopicFrames` has its inputs: dead letters, retry records, records of ready topics, and the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from kafka_redelivery.consumers.operations.waiting import partitions_of
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.condition import condition
from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA, UNKNOWN_ORIGIN, SourceCodecs, dead_letters
from kafka_redelivery.pipeline.frames import (
    DONE,
    ORIGIN,
    Frames,
    header,
    header_number,
    header_text,
    header_time,
    journal_ranges,
    read_progress,
)
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import FailureDetails, Reason
from kafka_redelivery.topology.wire.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    REDRIVE,
    TIMESTAMP,
)
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.preflight import require_rights
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

UNKNOWN_REASON: Final = "(unknown)"

_KEY_BYTES: Final = 24
_HIDDEN: Final = "(hidden)"
_CUT: Final = 300
_ORIGINS: Final = 5
_ACCURACY: Final = 1000
"""Relative accuracy of quantiles: a thousandth of the rank."""

QUANTILES: Final = (0.5, 0.9, 0.99)
_PERCENT: Final = 100


class TopicFrames:
    """The frames of one report. All end at the end offsets of one moment, so they are consistent with each other."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        """Find out which topics exist, and read their first and end offsets.

        Raises:
            NotAuthorisedError: the user may not read all of them, so their records would not be counted.
            TransportError: Kafka does not answer.
        """
        admin, naming = ClusterAdmin(settings.kafka), settings.naming()
        require_rights(admin, settings, AclRole.REPORT)
        letters = sweep_plan(settings).topics
        tiers = [*naming.tiers_among(admin.topic_names()), naming.mixed_topic()]
        ready = [naming.ready_topic(source.topic) for source in settings.sources]
        journal = [naming.journal_topic()] if settings.journal else []
        cluster = admin.describe([*letters, *tiers, *ready, *journal], {})
        counts = {name: each.partitions for name, each in cluster.topics.items()}
        self._settings = settings
        self._marks = cluster.marks
        self._letters, self._tiers, self._ready, self._journal = (
            partitions_of(each, counts) for each in (letters, tiers, ready, journal)
        )
        self._frames = Frames(spark, kafka_options(settings.kafka))
        self._offsets = PartitionOffsets(settings.kafka)
        partitions = [*self._letters, *self._tiers, *self._ready, *self._journal]
        self._starts = self._offsets.log_start_offsets(partitions)
        self._ends = self._offsets.last_stable_offsets(partitions)

    def letters(self, table: str | None, where: Where | None = None) -> DataFrame:
        """Return one row for each dead letter in the archive, and for each newer one in the topics.

        One that was moved to an expiry topic counts when it died, if that is known.

        Args:
            table: the archive; ``None`` = the topics alone.
            where: which letters have true in the column ``selected``; ``None`` = all.

        Raises:
            PipelineRefusedError: the archive is no Delta table.
            OptionError: ``where`` names a column that the archive does not have.
        """
        archived = None if table is None else read_table(self._frames.spark, table, ARCHIVE_SCHEMA)
        archived_ends: dict[Partition, int] = {}
        if archived is not None:
            last = archived.groupBy("topic", "partition", "topic_mark").agg(F.max("offset").alias("last"))
            archived_ends = self._archived_ends(last.collect())
        details = self._settings.failure_details
        newer = dead_letters(
            self._records(self._letters, archived_ends),
            SourceCodecs({}, "", details=details),
            self._marks,
            self._settings.group,
        )
        whole = newer if archived is None else newer.unionByName(archived)
        if sweep_plan(self._settings).moving:
            whole = died_once(whole)
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
            present = self._marks.get(partition.topic, "")
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
        group = self._settings.group
        readers = {scheduler_group(group): self._tiers, group: self._ready}
        progress = read_progress(self._offsets, readers, self._marks)
        for partition in progress.damaged:
            _log.warning(
                "the progress of %s-%d cannot be decoded: some finished records may count as waiting", *partition
            )
        records = self._records([*self._tiers, *self._ready])
        return self._frames.with_status(records, progress.partitions).select(
            *ORIGIN,
            F.when(F.col("topic").isin({each.topic for each in self._ready}), "ready").otherwise("tier").alias("place"),
            F.col("timestamp").alias("at"),
            F.coalesce(header_text(ORIG_ADDRESS), F.lit(UNKNOWN_ORIGIN)).alias("origin"),
            header_text(ORIG_MESSAGE_ID).alias("message_id"),
            header_number(DELIVERY_COUNT, "int").alias("deliveries"),
            header_time(TIMESTAMP).alias("origin_timestamp"),
            "status",
        )

    def journal(self) -> DataFrame | None:
        """Return the ranges of the journal: ``topic, partition, outcome, first, last, at``; ``None`` if it is off."""
        if not self._journal:
            return None
        records = self._records(self._journal).withColumnRenamed("timestamp", "at")
        return journal_ranges(records, self._settings.group, "at")

    def _records(
        self, partitions: Iterable[Partition], archived_ends: Mapping[Partition, int] = MappingProxyType({})
    ) -> DataFrame:
        """Return the records of partitions, from the offsets in ``archived_ends`` on."""
        return self._frames.records(
            (each, max(self._starts[each], archived_ends.get(each, 0)), self._ends[each]) for each in partitions
        )


def died_once(letters: DataFrame) -> DataFrame:
    """Leave letters out that were moved to an expiry topic, where there are those that they were before."""
    expiries = F.size(F.filter("headers", lambda each: each["key"] == ACTUAL_EXPIRY))
    of_record = F.when(F.col("reason").eqNullSafe(Reason.EXPIRED.value), 1).otherwise(0)
    moved = F.coalesce(expiries > of_record, F.lit(False))  # noqa: FBT003 - a literal
    death = {
        "of_group": F.col("origin_group"),
        "of_record": F.col("origin_message_id"),
        "of_redrive": F.coalesce(header(REDRIVE), F.lit(b"")),
    }
    before = letters.where(~moved)
    first = before.select(*(column.alias(name) for name, column in death.items()))
    others = letters.where(moved).withColumns(death).join(first, list(death), "left_anti").drop(*death)
    return before.unionByName(others)


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
        _plain(F.coalesce("place", F.lit(""))).alias("place"),
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


def by(letters: DataFrame, *columns: str) -> DataFrame:
    """Count dead letters by columns, the most frequent first, with the first and last time."""
    counted = letters.groupBy(*columns).agg(
        F.count("*").alias("letters"),
        F.countDistinct("fingerprint").alias("fingerprints"),
        F.min("at").alias("first_seen"),
        F.max("at").alias("last_seen"),
    )
    return counted.orderBy(F.desc("letters"), *columns)


def trend(letters: DataFrame, unit: str) -> DataFrame:
    """Count dead letters by origin and reason for each ``second``, ``minute``, ``hour`` or ``day``."""
    return (
        letters.groupBy(F.date_trunc(unit, "at").alias("since"), "origin", "reason")
        .agg(F.count("*").alias("letters"))
        .orderBy("since", "origin", "reason")
    )


def fingerprints(letters: DataFrame) -> DataFrame:
    """Count dead letters by fingerprint, the most frequent first. The samples include the newest and the oldest one."""
    sample = F.struct(F.col("at"), F.col("message_id"), F.col("key"), F.col("message"))
    grouped = letters.groupBy("fingerprint", "reason", "exception", "place", "normal_message").agg(
        F.count("*").alias("letters"),
        F.countDistinct("origin").alias("origins"),
        F.slice(F.array_sort(F.collect_set("origin")), 1, _ORIGINS).alias("some_origins"),
        F.min("at").alias("first_seen"),
        F.max("at").alias("last_seen"),
        F.array_distinct(F.array(F.max(sample), F.min(sample), F.any_value(sample))).alias("samples"),
    )
    return grouped.orderBy(F.desc("letters"), "fingerprint", "reason")


def record_histories(journal: DataFrame) -> DataFrame:
    """Return one row for each record that failed: number of retries, final outcome, and times, from the journal."""
    offsets = F.explode(F.sequence("first", "last")).alias("offset")
    events = journal.where(F.col("outcome") != "acked").select("topic", "partition", "outcome", "at", offsets)
    is_a = {name: F.col("outcome") == name for name in ("retried", "recovered", "dead_lettered", "discarded")}
    return events.groupBy("topic", "partition", "offset").agg(
        F.count_if(is_a["retried"]).alias("retried"),
        (F.count_if(is_a["recovered"]) > 0).alias("recovered"),
        ((F.count_if(is_a["recovered"]) == 0) & (F.count_if(is_a["dead_lettered"]) > 0)).alias("dead"),
        (F.count_if(is_a["discarded"]) > 0).alias("discarded"),
        F.min(F.when(is_a["retried"], F.col("at"))).alias("failed_at"),
        F.max(F.when(is_a["recovered"], F.col("at"))).alias("ended_at"),
    )


def histories_from_topics(copies: DataFrame, letters: DataFrame, pending: DataFrame) -> DataFrame:
    """As :func:`record_histories`, from the topics instead of the journal.

    A record that failed, is not a dead letter and does not wait has recovered or was discarded; the topics do not show
    which. ``ended_at`` is the time of its release for the last delivery, because the end is unknown.
    """
    failed = (
        copies.where(F.col("message_id").isNotNull() & (F.col("deliveries") > 0))
        .groupBy("message_id")
        .agg(
            F.first("origin").alias("topic"),
            F.max("deliveries").alias("retried"),
            F.min("at").alias("failed_at"),
            F.max("at").alias("ended_at"),
        )
    )
    dead = letters.groupBy("message_id").agg(F.max("deliveries").alias("died_after"))
    waiting = pending.select("message_id").distinct().withColumn("waits", F.lit(1))
    joined = failed.join(dead, "message_id", "full").join(waiting, "message_id", "left")
    is_dead, waits = F.col("died_after").isNotNull(), F.col("waits").isNotNull()
    # The last delivery of a dead letter was not retried.
    retried = F.when(is_dead, F.greatest(F.col("died_after") - 1, F.lit(0))).otherwise(F.col("retried"))
    return joined.select(
        "topic",
        "message_id",
        retried.alias("retried"),
        (~is_dead & ~waits).alias("recovered"),
        is_dead.alias("dead"),
        F.lit(False).alias("discarded"),  # noqa: FBT003 - a literal
        "failed_at",
        "ended_at",
    )


def survival(histories: DataFrame) -> DataFrame:
    """Count the outcomes of failed records by attempt: ``attempt, reached, recovered, dead, discarded``.

    An attempt is a delivery; the first is 1. ``reached`` counts the records that had the attempt. A record that was
    dead-lettered without a delivery counts at 1. A waiting record counts at its last delivery.
    """
    has_ended = F.col("recovered") | F.col("dead") | F.col("discarded")
    attempt = F.col("retried") + has_ended.cast("int")
    ended = histories.groupBy(F.greatest(attempt, F.lit(1)).alias("attempt")).agg(
        F.count("*").alias("records"),
        *(F.count_if(F.col(name)).alias(name) for name in ("recovered", "dead", "discarded")),
    )
    # Add rows for attempts without an outcome.
    most = ended.agg(F.max("attempt").alias("most"))
    attempts = most.select(F.explode(F.sequence(F.lit(1), F.col("most").cast("int"))).alias("attempt"))
    ended = attempts.join(ended, "attempt", "left").na.fill(0)
    later = Window.orderBy(F.desc("attempt")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reached = ended.withColumn("reached", F.sum("records").over(later))
    return reached.select("attempt", "reached", "recovered", "dead", "discarded").orderBy("attempt")


def recovery_times(histories: DataFrame) -> DataFrame:
    """Return the seconds from the first failure to the success by source: count, quantiles and maximum."""
    seconds = (F.unix_micros("ended_at") - F.unix_micros("failed_at")) / 1e6
    times = histories.where(F.col("recovered") & F.col("failed_at").isNotNull()).select(
        "topic", seconds.alias("seconds")
    )
    quantiles = [F.percentile_approx("seconds", level, _ACCURACY).alias(_name(level)) for level in QUANTILES]
    return (
        times.groupBy("topic")
        .agg(F.count("*").alias("recovered"), *quantiles, F.max("seconds").alias("longest"))
        .orderBy(F.desc("recovered"), "topic")
    )


def recovery_curve(histories: DataFrame) -> list[float]:
    """Return the seconds within which 1 %, 2 %, ..., 100 % of the recovered records did so; empty if none did."""
    seconds = (F.unix_micros("ended_at") - F.unix_micros("failed_at")) / 1e6
    levels = [number / _PERCENT for number in range(1, _PERCENT + 1)]
    found = histories.where(F.col("recovered") & F.col("failed_at").isNotNull()).agg(
        F.percentile_approx(seconds, levels, _ACCURACY).alias("levels")
    )
    return list(found.collect()[0]["levels"] or ())


def pending(copies: DataFrame) -> DataFrame:
    """Select the records that the scheduler (tiers) or the workers (ready topics) have not finished."""
    return copies.where(F.col("status") != DONE)


def pending_by_origin(pending: DataFrame) -> DataFrame:
    """Count waiting records by source, with the oldest one."""
    return (
        pending.groupBy("origin")
        .agg(
            F.count("*").alias("records"),
            F.count_if(F.col("place") == "tier").alias("in_tiers"),
            F.count_if(F.col("place") == "ready").alias("ready"),
            F.min("origin_timestamp").alias("oldest_record"),
            F.min_by("message_id", "origin_timestamp").alias("oldest_message_id"),
            F.max("deliveries").alias("most_deliveries"),
        )
        .orderBy("oldest_record", "origin")
    )


def _name(level: float) -> str:
    return f"p{level * _PERCENT:g}"
