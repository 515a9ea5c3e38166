"""The source records and their copies as DataFrames.

Only committed records between fixed offsets are read. Other programs can write headers, so Spark's own functions parse
them and return null for values that are not valid.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.audit.snapshot import Kind, Snapshot
from kafka_redelivery.pipeline.frames.kafka_frames import ORIGIN, Frames, header_text
from kafka_redelivery.pipeline.frames.progress_frames import DONE, PROGRESS_SCHEMA, watermark_and_seen, with_status
from kafka_redelivery.topology.wire.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    EXPIRATION,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    SCHEDULED_DELIVERY,
    TIMESTAMP,
)
from kafka_redelivery.topology.wire.topic_mark import CLUSTER_LENGTH

_MESSAGE_ID: Final = r"^([A-Za-z0-9._-]{1,249})-([0-9]{1,9})@([0-9]{1,18})$"
_NUMBER: Final = r"^[0-9]{1,18}$"
_HEADERS: Final = {
    ORIG_MESSAGE_ID: "message_id",
    ORIG_QUEUE: "queue",
    DELIVERY_COUNT: "count",
    EXPIRATION: "expiration",
    SCHEDULED_DELIVERY: "due",
    ACTUAL_EXPIRY: "expiry",
    TIMESTAMP: "origin_time",
}
_COPIES: Final = (Kind.TIER, Kind.READY, Kind.LETTER)


class TopicFrames:
    """The frames of one audit. They are lazy: Spark reads when an action runs."""

    def __init__(self, frames: Frames, snapshot: Snapshot) -> None:
        self._frames = frames
        self._snapshot = snapshot

    def sources(self) -> DataFrame:
        """Return one row for each source record: ``topic, partition, offset`` and its ``status`` with the group."""
        ranges = self._snapshot.sources
        progress = {source.partition: source.reader_progress for source in ranges if source.reader_progress is not None}
        marks = self._frames.local(
            [(*source.partition, *watermark_and_seen(source.reader_progress)) for source in ranges],
            PROGRESS_SCHEMA,
        )
        records = self._frames.records(
            ((source.partition, source.first, source.end) for source in ranges), headers=False
        )
        return with_status(self._frames, records.select(*ORIGIN), marks, progress).select(*ORIGIN, "status")

    def copies(self, archive: str | None = None) -> DataFrame:
        """Return one row for each copy in a tier, a ready topic or a dead-letter topic.

        Args:
            archive: a table of archived dead letters; those that Kafka has removed from their topics are added.

        Returns:
            ``topic, partition, offset`` of the copy, its ``kind`` and timestamp ``at_ms``; ``origin_topic,
            origin_partition, origin_offset, origin_ms`` (the timestamp of the source record), null if its headers do
            not name them; ``deliveries``, -1 if not valid; ``finished``: its reader has finished it; ``late``: may be
            newer than the commits; ``expired``; ``redriven``.
        """
        spans = {span.partition: (kind, span) for kind in _COPIES for span in self._snapshot.spans[kind]}
        progress = {partition: point for partition, point in self._snapshot.progress.items() if partition in spans}
        marks = self._frames.local(
            [
                (*partition, str(kind), span.early, *watermark_and_seen(progress.get(partition)))
                for partition, (kind, span) in spans.items()
            ],
            "topic string, partition int, kind string, early bigint, watermark bigint, seen bigint",
        )
        records = self._frames.records((partition, span.start, span.end) for partition, (_, span) in spans.items())
        there = self._parsed(with_status(self._frames, records, marks, progress))
        return there if archive is None else there.unionByName(self._archived(archive))

    def _archived(self, path: str) -> DataFrame:
        """Return dead letters that are in the archive but no longer in their topic."""
        marks = self._snapshot.marks
        starts = self._frames.local(
            [(*span.partition, span.start, marks[span.partition.topic]) for span in self._snapshot.spans[Kind.LETTER]],
            "topic string, partition int, start bigint, mark string",
        )
        table_rows = self._frames.table(path, ARCHIVE_SCHEMA)
        letters = table_rows.where(F.col("origin_group") == self._snapshot.group)
        older = F.coalesce(_is_other(F.col("topic_mark"), F.col("mark")), F.lit(False))  # noqa: FBT003 - a literal
        gone = letters.join(F.broadcast(starts), ["topic", "partition"]).where(
            older | (F.col("offset") < F.col("start"))
        )
        return (
            gone.select(
                *ORIGIN,
                F.lit(str(Kind.LETTER)).alias("kind"),
                F.unix_millis("dead_lettered_at").alias("at_ms"),
                F.lit(False).alias("late"),  # noqa: FBT003 - a literal
                F.col("origin_address").alias("origin_topic"),
                "origin_partition",
                "origin_offset",
                F.unix_millis("origin_timestamp").alias("origin_ms"),
                F.coalesce(F.col("delivery_count").cast("bigint"), F.lit(-1)).alias("deliveries"),
                F.col("expiration").isNotNull().alias("expires"),
                F.col("actual_expiry").isNotNull().alias("expired"),
                F.lit(False).alias("redriven"),  # noqa: FBT003
            )
            .withColumn("finished", F.col("expires") & self._is_moved())
            .select(*_COPY)
        )

    def _parsed(self, placed: DataFrame) -> DataFrame:
        """Parse headers into columns."""
        text = {name: header_text(name) for name in _HEADERS}
        records = placed.select(
            *ORIGIN,
            "kind",
            "status",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
            *(value.alias(_HEADERS[name]) for name, value in text.items()),
        )
        ready, letter = F.col("kind") == str(Kind.READY), F.col("kind") == str(Kind.LETTER)
        # Other groups may share a dead-letter topic.
        ours = records.where(~letter | (F.col("queue") == self._snapshot.group))
        expiration = F.when(F.col("expiration").rlike(_NUMBER), F.col("expiration").try_cast("bigint"))
        parsed = ours.withColumns(
            {
                "origin_topic": F.nullif(F.regexp_extract("message_id", _MESSAGE_ID, 1), F.lit("")),
                "origin_partition": F.regexp_extract("message_id", _MESSAGE_ID, 2).try_cast("int"),
                "origin_offset": F.regexp_extract("message_id", _MESSAGE_ID, 3).try_cast("bigint"),
                "deliveries": F.when(F.col("count").rlike(_NUMBER), F.col("count").try_cast("bigint")).otherwise(
                    F.lit(-1)
                ),
                "origin_ms": F.col("origin_time").try_cast("bigint"),
                "expires_ms": F.coalesce(expiration, F.lit(0)),
                "redriven": ready & F.col("due").isNull(),
            }
        )
        passed = (F.col("expires_ms") > 0) & (F.col("expires_ms") <= self._snapshot.taken_ms)
        done = F.col("status") == DONE
        # The only reader of a dead-letter topic is the sweeper, if it moves expired dead letters.
        finished = F.when(letter, done & (F.col("expires_ms") > 0) & self._is_moved()).otherwise(done)
        return parsed.withColumns(
            {"expired": letter & (F.col("expiry").isNotNull() | passed), "finished": finished}
        ).select(*_COPY)

    def _is_moved(self) -> Column:
        """Whether the sweeper moves a dead letter when it expires."""
        plan = self._snapshot.sweeps
        pairs = [
            F.lit(False),  # noqa: FBT003 - a literal
            *(
                (F.col("topic") == topic) & (F.col("origin_topic") == source)
                for topic in plan.topics
                for source in plan.expiries
                if plan.expiry_topic(topic, source) is not None
            ),
        ]
        found = pairs[0]
        for pair in pairs[1:]:
            found |= pair
        return found

    def attributed(self, copies: DataFrame) -> DataFrame:
        """Resolve the origins of dead letters that name a copy. This happens if the copy's headers were damaged.

        Args:
            copies: the result of :meth:`copies`, which should be cached because it is read three times.
        """
        ours = sorted({span.partition.topic for kind in (Kind.TIER, Kind.READY) for span in self._snapshot.spans[kind]})
        stray = F.col("origin_topic").isin(ours) & (F.col("kind") == str(Kind.LETTER))
        known = copies.where((F.col("kind") != str(Kind.LETTER)) & F.col("origin_offset").isNotNull()).select(
            F.col("topic").alias("origin_topic"),
            F.col("partition").alias("origin_partition"),
            F.col("offset").alias("origin_offset"),
            F.struct(*_LINEAGE).alias("first"),
        )
        renamed = copies.where(stray).join(known, ["origin_topic", "origin_partition", "origin_offset"], "left")
        return copies.where(~F.coalesce(stray, F.lit(False))).unionByName(  # noqa: FBT003 - a literal
            renamed.select(
                *(name for name in copies.columns if name not in _LINEAGE),
                *(F.coalesce(F.col(f"first.{name}"), F.col(name)).alias(name) for name in _LINEAGE),
            )
        )

    def of_present(self, copies: DataFrame, created_again: Collection[str]) -> DataFrame:
        """Leave out the copies that are not of the sources as they are now.

        A new topic repeats the offsets of an older one of its name. A copy is of the new one if the record at its
        offset has the timestamp that the copy names.

        Args:
            copies: the result of :meth:`attributed`.
            created_again: the sources that were created again.
        """
        if not created_again:
            return copies
        ranges = [source for source in self._snapshot.sources if source.partition.topic in created_again]
        records = self._frames.records(((each.partition, each.first, each.end) for each in ranges), headers=False)
        present = records.select(
            *(F.col(name).alias(f"origin_{name}") for name in ORIGIN), F.unix_millis("timestamp").alias("origin_ms")
        )
        again = F.coalesce(F.col("origin_topic").isin(*created_again), F.lit(False))  # noqa: FBT003 - a literal
        mine = copies.where(again).join(present, [*(f"origin_{name}" for name in ORIGIN), "origin_ms"], "left_semi")
        return copies.where(~again).unionByName(mine)


def _is_other(remembered: Column, present: Column) -> Column:
    """Whether two marks are of topics of one cluster, as :func:`topology.wire.topic_mark.is_other_topic` says."""
    cluster = F.substring(remembered, 1, CLUSTER_LENGTH) == F.substring(present, 1, CLUSTER_LENGTH)
    return cluster & (remembered != present)


_LINEAGE: Final = ("origin_topic", "origin_partition", "origin_offset", "origin_ms", "deliveries")
_COPY: Final = (*ORIGIN, "kind", "at_ms", "late", *_LINEAGE, "finished", "expired", "redriven")
