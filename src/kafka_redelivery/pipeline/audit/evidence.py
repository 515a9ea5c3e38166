"""What the topics say about the source records: the records, their copies, and the journal, as DataFrames.

Only committed records between fixed offsets are read. Other programs can write headers, so Spark's own functions parse
them and return null for values that are not valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.audit.snapshot import Snapshot, TopicKind
from kafka_redelivery.pipeline.frames import DONE, ORIGIN, Frames, header_text, journal_ranges
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.topology.policy.lineage import IMPORTED_OFFSETS
from kafka_redelivery.topology.wire.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    EXPIRATION,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    SCHEDULED_DELIVERY,
    TIMESTAMP,
)
from kafka_redelivery.topology.wire.journal import OUTCOMES
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.topology.wire.topic_mark import CLUSTER_LENGTH, is_other_topic
from kafka_redelivery.transport.protocols import Partition

OUT_OF_ORDER: Final = METADATA_LIMIT * 6
"""The maximum distance of a finished record from the watermark: each offset takes one bit of the commit's metadata."""

_MESSAGE_ID: Final = r"\A([A-Za-z0-9._-]{1,249})-([0-9]{1,9})@([0-9]{1,18})\z"
_NUMBER: Final = r"\A[0-9]{1,18}\z"
_HEADERS: Final = {
    ORIG_MESSAGE_ID: "message_id",
    ORIG_QUEUE: "queue",
    DELIVERY_COUNT: "count",
    EXPIRATION: "expiration",
    SCHEDULED_DELIVERY: "due",
    ACTUAL_EXPIRY: "expiry",
    TIMESTAMP: "origin_time",
}
_LINEAGE: Final = ("origin_topic", "origin_partition", "origin_offset", "origin_ms", "deliveries")
_COPY: Final = (*ORIGIN, "kind", "at_ms", "late", *_LINEAGE, "finished", "expired", "redriven")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The frames of one audit. They are lazy: Spark reads when an action runs."""

    frames: Frames
    snapshot: Snapshot

    def sources(self) -> DataFrame:
        """Return one row for each source record: ``topic, partition, offset`` and its ``status`` with the group."""
        ranges = ((source.partition, source.first, source.end) for source in self.snapshot.sources)
        records = self.frames.records(ranges, headers=False).select(*ORIGIN)
        return self.frames.with_status(records, self.snapshot.progress)

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
        kinds = (TopicKind.TIER, TopicKind.READY, TopicKind.LETTER)
        spans = [(str(kind), span) for kind in kinds for span in self.snapshot.spans[kind]]
        places = self.frames.local(
            [(*span.partition, kind, span.early) for kind, span in spans],
            "topic string, partition int, kind string, early bigint",
        )
        records = self.frames.records((span.partition, span.start, span.end) for _, span in spans)
        placed = records.join(F.broadcast(places), ["topic", "partition"])
        there = self._parsed(self.frames.with_status(placed, self.snapshot.progress))
        return there if archive is None else there.unionByName(self._archived(archive))

    def _archived(self, path: str) -> DataFrame:
        """Return dead letters that are in the archive but no longer in their topic."""
        marks = self.snapshot.marks
        starts = self.frames.local(
            [
                (*span.partition, span.start, marks[span.partition.topic])
                for span in self.snapshot.spans[TopicKind.LETTER]
            ],
            "topic string, partition int, start bigint, mark string",
        )
        letters = read_table(self.frames.spark, path, ARCHIVE_SCHEMA).where(
            F.col("origin_group") == self.snapshot.group
        )
        older = F.coalesce(_is_other(F.col("topic_mark"), F.col("mark")), F.lit(False))  # noqa: FBT003 - a literal
        gone = letters.join(F.broadcast(starts), ["topic", "partition"]).where(
            older | (F.col("offset") < F.col("start"))
        )
        return (
            gone.select(
                *ORIGIN,
                F.lit(str(TopicKind.LETTER)).alias("kind"),
                F.unix_millis("dead_lettered_at").alias("at_ms"),
                F.lit(False).alias("late"),  # noqa: FBT003 - a literal
                F.col("origin_address").alias("origin_topic"),
                "origin_partition",
                # A message of ActiveMQ has no record in the source.
                F.when(F.col("origin_offset") < IMPORTED_OFFSETS, F.col("origin_offset")).alias("origin_offset"),
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
        text = {name: header_text(name) for name in _HEADERS}
        records = placed.select(
            *ORIGIN,
            "kind",
            "status",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
            *(value.alias(_HEADERS[name]) for name, value in text.items()),
        )
        ready, letter = F.col("kind") == str(TopicKind.READY), F.col("kind") == str(TopicKind.LETTER)
        # Other groups may share a dead-letter topic.
        ours = records.where(~letter | (F.col("queue") == self.snapshot.group))
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
        passed = (F.col("expires_ms") > 0) & (F.col("expires_ms") <= self.snapshot.taken_ms)
        done = F.col("status") == DONE
        # The only reader of a dead-letter topic is the sweeper, if it moves expired dead letters.
        finished = F.when(letter, done & (F.col("expires_ms") > 0) & self._is_moved()).otherwise(done)
        return parsed.withColumns(
            {"expired": letter & (F.col("expiry").isNotNull() | passed), "finished": finished}
        ).select(*_COPY)

    def _is_moved(self) -> Column:
        """Whether the sweeper moves a dead letter when it expires."""
        plan = self.snapshot.sweeps
        moved = [(topic, name) for topic in plan.topics for name in plan.expiries if plan.expiry_topic(topic, name)]
        return _any((F.col("topic") == topic) & (F.col("origin_topic") == name) for topic, name in moved)

    def attributed(self, copies: DataFrame) -> DataFrame:
        """Resolve the origins of dead letters that name a copy. This happens if the copy's headers were damaged.

        Args:
            copies: the result of :meth:`copies`, which should be cached because it is read three times.
        """
        ours = sorted(
            {span.partition.topic for kind in (TopicKind.TIER, TopicKind.READY) for span in self.snapshot.spans[kind]}
        )
        stray = F.col("origin_topic").isin(ours) & (F.col("kind") == str(TopicKind.LETTER))
        known = copies.where((F.col("kind") != str(TopicKind.LETTER)) & F.col("origin_offset").isNotNull()).select(
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
        ranges = [source for source in self.snapshot.sources if source.partition.topic in created_again]
        records = self.frames.records(((each.partition, each.first, each.end) for each in ranges), headers=False)
        present = records.select(
            *(F.col(name).alias(f"origin_{name}") for name in ORIGIN), F.unix_millis("timestamp").alias("origin_ms")
        )
        again = F.coalesce(F.col("origin_topic").isin(*created_again), F.lit(False))  # noqa: FBT003 - a literal
        mine = copies.where(again).join(present, [*(f"origin_{name}" for name in ORIGIN), "origin_ms"], "left_semi")
        return copies.where(~again).unionByName(mine)

    def journal(self) -> DataFrame:
        """Return one row for each range of the journal, ``last`` inclusive; none if it is not used.

        ``topic, partition, mark, outcome, first, last, at_ms, late``, and ``written``: the offset in the journal.
        """
        spans = self.snapshot.spans[TopicKind.JOURNAL]
        early = self.frames.local(
            [(*span.partition, span.early) for span in spans], "topic string, partition int, early bigint"
        )
        records = self.frames.records((span.partition, span.start, span.end) for span in spans)
        entries = records.join(F.broadcast(early), ["topic", "partition"]).select(
            "value",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
            F.col("offset").alias("written"),
        )
        return journal_ranges(entries, self.snapshot.group, "at_ms", "late", "written")

    def outcomes(self, ranges: DataFrame, created_again: Collection[str] = ()) -> DataFrame:
        """Count the outcomes of each audited source record; one row per record.

        Of a source that was created again, entries that name another topic do not count. Entries of redelivered records
        name none: they count after one of the present topic about the same offset, because a record is redelivered only
        after it was read from its source.

        Args:
            ranges: the result of :meth:`journal`.
            created_again: the sources that were created again.
        """
        bounds = self.frames.local(
            [(*source.partition, source.first, source.end) for source in self.snapshot.sources],
            "topic string, partition int, begin bigint, finish bigint",
        )
        within = (F.col("last") >= F.col("begin")) & (F.col("first") < F.col("finish"))
        offsets = F.sequence(F.greatest("first", "begin"), F.least(F.col("last"), F.col("finish") - 1))
        records = (
            ranges.join(F.broadcast(bounds), ["topic", "partition"])
            .where(within)
            .withColumn("offset", F.explode(offsets))
        )
        if created_again:
            again, named = F.col("topic").isin(*created_again), F.col("mark").isNotNull()
            records = records.where(~again | ~named | _is_present(self.snapshot))
            # All entries of a source partition are in one partition of the journal.
            since = F.min(F.when(named, F.col("written"))).over(Window.partitionBy(*ORIGIN))
            records = records.withColumn("since", since).where(~again | (F.col("written") >= F.col("since")))
        lettered = F.col("outcome") == "dead_lettered"
        success = F.col("outcome").isin("acked", "recovered", "discarded")
        return records.groupBy(*ORIGIN).agg(
            *(F.count_if(F.col("outcome") == name).alias(name) for name in OUTCOMES),
            F.count_if(success & F.col("late")).alias("late_successes"),
            F.count_if(lettered & F.col("late")).alias("late_dead_lettered"),
            F.max(F.when(lettered, F.col("at_ms"))).alias("dead_lettered_ms"),
        )


def _is_other(remembered: Column, present: Column) -> Column:
    """Whether two marks are of topics of one cluster, as :func:`topology.wire.topic_mark.is_other_topic` says."""
    cluster = F.substring(remembered, 1, CLUSTER_LENGTH) == F.substring(present, 1, CLUSTER_LENGTH)
    return cluster & (remembered != present)


def _is_present(snapshot: Snapshot) -> Column:
    """Whether a range is about a source as it is now."""
    sources = sorted({source.partition.topic for source in snapshot.sources})
    return _any((F.col("topic") == topic) & (F.col("mark") == snapshot.marks[topic]) for topic in sources)


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(or_, conditions, F.lit(False))  # noqa: FBT003 - a literal


def coverage(
    journal: DataFrame, snapshot: Snapshot, ordered: Collection[str]
) -> tuple[dict[Partition, tuple[int, int]], frozenset[str]]:
    """Return the offset and the time (epoch ms) from which the journal is complete, by source partition.

    The journal has an outcome for every record from the offset on, and for every record that was read after the time.
    Partitions without entries are missing. Also returns the sources that were created again since the journal's first
    entry; of these only the entries count that name the present topic.

    Records are handled almost in the order of their offsets. So the first acked offset is where the journal was
    switched on, or where it was trimmed to, within the distance that records can be finished out of order.

    Args:
        journal: its entries.
        snapshot: the positions.
        ordered: the sources whose records are handled in the order of their partition.
    """
    if not snapshot.journal:
        return {}, frozenset()
    first = journal.groupBy("topic", "partition", "mark").agg(
        F.min(F.when(F.col("outcome") == "acked", F.col("first"))).alias("acked"),
        F.min("first").alias("any"),
        F.min("at_ms").alias("since_ms"),
    )
    marks, sources = snapshot.marks, {source.partition.topic for source in snapshot.sources}
    rows = [row for row in first.collect() if row["topic"] in sources]
    again = frozenset(row["topic"] for row in rows if is_other_topic(row["mark"] or "", marks[row["topic"]]))
    present = [row for row in rows if row["topic"] not in again or row["mark"] == marks[row["topic"]]]
    by_partition: defaultdict[Partition, list[Row]] = defaultdict(list)
    for row in present:
        by_partition[Partition(row["topic"], row["partition"])].append(row)
    found = {}
    for source in snapshot.sources:
        mine = by_partition[source.partition]
        if mine:
            acked = min((row["acked"] for row in mine if row["acked"] is not None), default=None)
            in_order = source.partition.topic in ordered
            begins = _begins(acked, min(row["any"] for row in mine), source.log_start, in_order=in_order)
            found[source.partition] = begins, min(row["since_ms"] for row in mine)
    return found, again


def _begins(acked: int | None, mentioned: int, log_start: int, *, in_order: bool) -> int:
    """Return the first offset that the journal must cover."""
    if acked is None or (mentioned <= log_start and acked - log_start <= OUT_OF_ORDER):
        return mentioned  # it was on from the first record
    return acked if in_order else acked + OUT_OF_ORDER
