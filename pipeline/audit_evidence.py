"""What the topics say of each source record, as columns: where it is, where its copies are, what the journal tells.

Everything is read with committed records only, between fixed offsets. What strangers can write (headers, the journal's
values) is parsed by Spark's own functions, which answer null for what cannot be read.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.audit_snapshot import Kind, Snapshot
from pipeline.kafka_frames import ORIGIN, Frames
from pipeline.progress_frames import DONE, MARKS, mark, with_standing
from pipeline.record_headers import header_text
from pipeline.table_format import TableFormat
from topology.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    EXPIRATION,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    SCHEDULED_DELIVERY,
)

_MESSAGE_ID: Final = r"^([A-Za-z0-9._-]{1,249})-([0-9]{1,9})@([0-9]{1,18})$"
_NUMBER: Final = r"^[0-9]{1,18}$"
_HEADERS: Final = {
    ORIG_MESSAGE_ID: "message_id",
    ORIG_QUEUE: "queue",
    DELIVERY_COUNT: "count",
    EXPIRATION: "expiration",
    SCHEDULED_DELIVERY: "due",
    ACTUAL_EXPIRY: "expiry",
}
_COPIES: Final = (Kind.TIER, Kind.READY, Kind.LETTER)


class Evidence:
    """The frames of one audit. Nothing is read before somebody asks for rows."""

    def __init__(self, frames: Frames, snapshot: Snapshot) -> None:
        self._frames = frames
        self._snapshot = snapshot

    def sources(self) -> DataFrame:
        """One row for each source record: ``topic, partition, offset``, and where it ``stands`` with the group."""
        ranges = self._snapshot.sources
        standings = {source.place: source.standing for source in ranges if source.standing is not None}
        marks = self._frames.local(
            [(*source.place, *mark(source.standing)) for source in ranges],
            MARKS,
        )
        records = self._frames.records(((source.place, source.first, source.end) for source in ranges), headers=False)
        return with_standing(self._frames, records.select(*ORIGIN), marks, standings).select(*ORIGIN, "stands")

    def copies(self, archive: str | None = None, archive_format: TableFormat = TableFormat.PARQUET) -> DataFrame:
        """One row for each copy in a tier, a ready topic or a dead-letter topic.

        Args:
            archive: the table that dead letters have been archived in; those that their topics have no more are added.
            archive_format: its format.

        Returns:
            ``topic, partition, offset`` of the copy, its ``kind`` and timestamp ``at_ms``; ``origin_topic,
            origin_partition, origin_offset``, null where its headers do not say; ``deliveries``, -1 if unreadable;
            ``finished``: its reader is done with it; ``late``: it may have come after the commits were looked at;
            ``expired``; ``redriven``.
        """
        spans = {span.place: (kind, span) for kind in _COPIES for span in self._snapshot.spans[kind]}
        standings = {place: point for place, point in self._snapshot.standings.items() if place in spans}
        marks = self._frames.local(
            [(*place, str(kind), span.early, *mark(standings.get(place))) for place, (kind, span) in spans.items()],
            "topic string, partition int, kind string, early bigint, watermark bigint, seen bigint",
        )
        records = self._frames.records((place, span.start, span.end) for place, (_, span) in spans.items())
        there = self._parsed(with_standing(self._frames, records, marks, standings))
        return there if archive is None else there.unionByName(self._archived(archive, archive_format))

    def _archived(self, path: str, table: TableFormat) -> DataFrame:
        """Dead letters that are in the archive, and no more in their topic."""
        starts = self._frames.local(
            [(*span.place, span.start) for span in self._snapshot.spans[Kind.LETTER]],
            "topic string, partition int, start bigint",
        )
        letters = self._frames.table(path, table).where(F.col("origin_group") == self._snapshot.group)
        gone = letters.join(F.broadcast(starts), ["topic", "partition"]).where(F.col("offset") < F.col("start"))
        return (
            gone.select(
                *ORIGIN,
                F.lit(str(Kind.LETTER)).alias("kind"),
                F.unix_millis("dead_lettered_at").alias("at_ms"),
                F.lit(False).alias("late"),  # noqa: FBT003 - a literal
                F.col("origin_address").alias("origin_topic"),
                "origin_partition",
                "origin_offset",
                F.coalesce(F.col("delivery_count").cast("bigint"), F.lit(-1)).alias("deliveries"),
                F.col("expiration").isNotNull().alias("expires"),
                F.col("actual_expiry").isNotNull().alias("expired"),
                F.lit(False).alias("redriven"),  # noqa: FBT003
            )
            .withColumn("finished", F.col("expires") & self._is_moved())
            .select(*_COPY)
        )

    def _parsed(self, placed: DataFrame) -> DataFrame:
        """Headers into columns."""
        text = {name: header_text(name) for name in _HEADERS}
        records = placed.select(
            *ORIGIN,
            "kind",
            "stands",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
            *(value.alias(_HEADERS[name]) for name, value in text.items()),
        )
        ready, letter = F.col("kind") == str(Kind.READY), F.col("kind") == str(Kind.LETTER)
        # A dead-letter topic may be shared with other groups.
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
                "expires_ms": F.coalesce(expiration, F.lit(0)),
                "redriven": ready & F.col("due").isNull(),
            }
        )
        passed = (F.col("expires_ms") > 0) & (F.col("expires_ms") <= self._snapshot.taken_ms)
        done = F.col("stands") == DONE
        # Nobody reads a dead letter but the sweeper, where it moves those that have expired.
        finished = F.when(letter, done & (F.col("expires_ms") > 0) & self._is_moved()).otherwise(done)
        return parsed.withColumns(
            {"expired": letter & (F.col("expiry").isNotNull() | passed), "finished": finished}
        ).select(*_COPY)

    def _is_moved(self) -> Column:
        """Whether a letter would be moved when it has expired."""
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
        """The same with more origins: a letter of a copy with damaged headers names that copy, which may name its own.

        Args:
            copies: of :meth:`copies`, better kept: it is read three times.
        """
        ours = sorted({span.place.topic for kind in (Kind.TIER, Kind.READY) for span in self._snapshot.spans[kind]})
        stray = F.col("origin_topic").isin(ours) & (F.col("kind") == str(Kind.LETTER))
        known = copies.where((F.col("kind") != str(Kind.LETTER)) & F.col("origin_offset").isNotNull()).select(
            F.col("topic").alias("origin_topic"),
            F.col("partition").alias("origin_partition"),
            F.col("offset").alias("origin_offset"),
            F.struct("origin_topic", "origin_partition", "origin_offset", "deliveries").alias("first"),
        )
        renamed = copies.where(stray).join(known, ["origin_topic", "origin_partition", "origin_offset"], "left")
        return copies.where(~F.coalesce(stray, F.lit(False))).unionByName(  # noqa: FBT003 - a literal
            renamed.select(
                *(name for name in copies.columns if name not in _LINEAGE),
                *(F.coalesce(F.col(f"first.{name}"), F.col(name)).alias(name) for name in _LINEAGE),
            )
        )


_LINEAGE: Final = ("origin_topic", "origin_partition", "origin_offset", "deliveries")
_COPY: Final = (*ORIGIN, "kind", "at_ms", "late", *_LINEAGE, "finished", "expired", "redriven")
