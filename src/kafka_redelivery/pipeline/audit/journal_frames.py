"""The journal's outcomes of the audited records, and the offset from which the journal is complete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from kafka_redelivery.pipeline.audit.snapshot import Kind, Snapshot
from kafka_redelivery.pipeline.frames.journal_ranges import journal_ranges
from kafka_redelivery.pipeline.frames.kafka_frames import ORIGIN, Frames
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.journal import OUTCOMES
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.transport.protocols import Partition

OUT_OF_ORDER: Final = METADATA_LIMIT * 6
"""The maximum distance of a finished record from the watermark: each offset takes one bit of the commit's metadata."""


class JournalFrames:
    """The journal of one audit; empty if it is not used."""

    def __init__(self, frames: Frames, snapshot: Snapshot) -> None:
        self._frames = frames
        self._snapshot = snapshot

    def ranges(self) -> DataFrame:
        """Return one row for each range of the journal, ``last`` inclusive.

        ``topic, partition, mark, outcome, first, last, at_ms, late``, and ``written``: the offset in the journal.
        """
        return journal_ranges(self._entries(), self._snapshot.group, "at_ms", "late", "written")

    def outcomes(self, ranges: DataFrame, created_again: Collection[str] = ()) -> DataFrame:
        """Count the outcomes of each audited source record; one row per record.

        Of a source that was created again, entries that name another topic do not count. Entries of redelivered records
        name none: they count after one of the present topic about the same offset, because a record is redelivered only
        after it was read from its source.

        Args:
            ranges: the result of :meth:`ranges`.
            created_again: the sources that were created again.
        """
        bounds = self._frames.local(
            [(*source.partition, source.first, source.end) for source in self._snapshot.sources],
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
            records = records.where(~again | ~named | _is_present(self._snapshot))
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

    def _entries(self) -> DataFrame:
        """Return the records of the journal: ``value, at_ms, late, written``."""
        spans = self._snapshot.spans[Kind.JOURNAL]
        early = self._frames.local(
            [(*span.partition, span.early) for span in spans], "topic string, partition int, early bigint"
        )
        records = self._frames.records((span.partition, span.start, span.end) for span in spans)
        return records.join(F.broadcast(early), ["topic", "partition"]).select(
            "value",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
            F.col("offset").alias("written"),
        )


def _is_present(snapshot: Snapshot) -> Column:
    """Whether a range is about a source as it is now."""
    sources = {source.partition.topic for source in snapshot.sources}
    found = F.lit(False)  # noqa: FBT003 - a literal
    for topic in sorted(sources):
        found |= (F.col("topic") == topic) & (F.col("mark") == snapshot.marks[topic])
    return found


def coverage(
    journal: DataFrame, snapshot: Snapshot, ordering: Ordering
) -> tuple[dict[Partition, tuple[int, int]], frozenset[str]]:
    """Return the offset and the time (epoch ms) from which the journal is complete, by source partition.

    The journal has an outcome for every record from the offset on, and for every record that was read after the time.
    Partitions without entries are missing. Also returns the sources that were created again since the journal's first
    entry; of these only the entries count that name the present topic.

    Records are handled almost in the order of their offsets. So the first acked offset is where the journal was
    switched on, or where it was trimmed to, within the distance that records can be finished out of order.
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
            begins = _begins(acked, min(row["any"] for row in mine), source.log_start, ordering)
            found[source.partition] = begins, min(row["since_ms"] for row in mine)
    return found, again


def _begins(acked: int | None, mentioned: int, log_start: int, ordering: Ordering) -> int:
    """Return the first offset that the journal must cover."""
    if acked is None or (mentioned <= log_start and acked - log_start <= OUT_OF_ORDER):
        return mentioned  # it was on from the first record
    return acked if ordering is Ordering.PARTITION else acked + OUT_OF_ORDER
