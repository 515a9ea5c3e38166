"""What the topics say of each source record, as columns: where it is, where its copies are, what the journal tells.

Everything is read with committed records only, between fixed offsets. What strangers can write (headers, the journal's
values) is parsed by Spark's own functions, which answer null for what cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.audit_frames import ORIGIN, Frames
from pipeline.audit_snapshot import Kind, Snapshot, Standing
from topology.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    EXPIRATION,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    SCHEDULED_DELIVERY,
)
from transport.protocols import Partition

DONE, IN_HAND, IN_PLACE, UNREAD = "done", "in_hand", "in_place", "unread"
"""Where a record of a partition stands with its reader."""

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
            [(*source.place, *_mark(source.standing)) for source in ranges],
            "topic string, partition int, watermark bigint, seen bigint",
        )
        records = self._frames.records(((source.place, source.first, source.end) for source in ranges), headers=False)
        return self._standing(records.select(*ORIGIN), marks, standings).select(*ORIGIN, "stands")

    def copies(self, archive: str | None = None) -> DataFrame:
        """One row for each copy in a tier, a ready topic or a dead-letter topic.

        Args:
            archive: the table that dead letters have been archived in; those that their topics have no more are added.

        Returns:
            ``topic, partition, offset`` of the copy, its ``kind`` and timestamp ``at_ms``; ``origin_topic,
            origin_partition, origin_offset``, null where its headers do not say; ``deliveries``, -1 if unreadable;
            ``finished``: its reader is done with it; ``late``: it may have come after the commits were looked at;
            ``expired``; ``redriven``.
        """
        spans = {span.place: (kind, span) for kind in _COPIES for span in self._snapshot.spans[kind]}
        standings = {place: point for place, point in self._snapshot.standings.items() if place in spans}
        marks = self._frames.local(
            [(*place, str(kind), span.early, *_mark(standings.get(place))) for place, (kind, span) in spans.items()],
            "topic string, partition int, kind string, early bigint, watermark bigint, seen bigint",
        )
        records = self._frames.records((place, span.start, span.end) for place, (_, span) in spans.items())
        there = self._parsed(self._standing(records, marks, standings))
        return there if archive is None else there.unionByName(self._archived(archive))

    def _archived(self, path: str) -> DataFrame:
        """Dead letters that are in the archive, and no more in their topic."""
        starts = self._frames.local(
            [(*span.place, span.start) for span in self._snapshot.spans[Kind.LETTER]],
            "topic string, partition int, start bigint",
        )
        letters = self._frames.table(path).where(F.col("origin_group") == self._snapshot.group)
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
        text = {name: _header(name).cast("string") for name in _HEADERS}
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

    def _standing(self, records: DataFrame, marks: DataFrame, standings: Mapping[Partition, Standing]) -> DataFrame:
        """Adds the columns of ``marks``, and ``stands``; what is in a partition without a commit is unread."""
        unfinished = self._frames.local(
            [
                (*place, first, last, waits)
                for place, standing in standings.items()
                for waits, offsets in (
                    (True, standing.in_place),
                    (False, standing.outstanding - standing.in_place),
                )
                for first, last in _runs(offsets)
            ],
            "topic string, partition int, first bigint, last bigint, waits boolean",
        ).select("topic", "partition", F.explode(F.sequence("first", "last")).alias("offset"), "waits")
        stands = (
            F.when(F.col("watermark").isNull() | (F.col("offset") >= F.col("seen")), UNREAD)
            .when(F.col("waits"), IN_PLACE)
            .when(F.col("waits").isNotNull(), IN_HAND)
            .otherwise(DONE)
        )
        return (
            records.join(F.broadcast(marks), ["topic", "partition"])
            .join(F.broadcast(unfinished), list(ORIGIN), "left")
            .withColumn("stands", stands)
        )


_LINEAGE: Final = ("origin_topic", "origin_partition", "origin_offset", "deliveries")
_COPY: Final = (*ORIGIN, "kind", "at_ms", "late", *_LINEAGE, "finished", "expired", "redriven")


def _header(name: str) -> Column:
    """The last header of that name, as everybody here reads them; null if there is none."""
    return F.try_element_at(F.filter("headers", lambda header: header["key"] == name), F.lit(-1))["value"]


def _mark(standing: Standing | None) -> tuple[int | None, int | None]:
    return (None, None) if standing is None else (standing.watermark, standing.seen)


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Inclusive runs of consecutive offsets."""
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
