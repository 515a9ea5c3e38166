"""The journal's outcomes of the audited records, and the offset from which the journal is complete."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.audit.snapshot import Kind, Snapshot
from kafka_redelivery.pipeline.frames.journal_ranges import journal_ranges
from kafka_redelivery.pipeline.frames.kafka_frames import ORIGIN, Frames
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.journal import OUTCOMES
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.transport.protocols import Partition

OUT_OF_ORDER: Final = METADATA_LIMIT * 6
"""The maximum distance of a finished record from the watermark: each offset takes one bit of the commit's metadata."""


class JournalFrames:
    """The journal of one audit; empty if it is not used."""

    def __init__(self, frames: Frames, snapshot: Snapshot) -> None:
        self._frames = frames
        self._snapshot = snapshot

    def ranges(self) -> DataFrame:
        """Return one row for each range of the journal: ``topic, partition, outcome, first, last, at_ms, late``.

        ``last`` is inclusive.
        """
        return journal_ranges(self._entries(), self._snapshot.group, "at_ms", "late")

    def outcomes(self, ranges: DataFrame) -> DataFrame:
        """Count the outcomes of each audited source record; one row per record."""
        bounds = self._frames.local(
            [(*source.partition, source.first, source.end) for source in self._snapshot.sources],
            "topic string, partition int, begin bigint, finish bigint",
        )
        within = (F.col("last") >= F.col("begin")) & (F.col("first") < F.col("finish"))
        offsets = F.sequence(F.greatest("first", "begin"), F.least(F.col("last"), F.col("finish") - 1))
        records = (
            ranges.join(F.broadcast(bounds), ["topic", "partition"])
            .where(within)
            .select("topic", "partition", F.explode(offsets).alias("offset"), "outcome", "at_ms", "late")
        )
        lettered = F.col("outcome") == "dead_lettered"
        success = F.col("outcome").isin("acked", "recovered", "discarded")
        return records.groupBy(*ORIGIN).agg(
            *(F.count_if(F.col("outcome") == name).alias(name) for name in OUTCOMES),
            F.count_if(success & F.col("late")).alias("late_successes"),
            F.count_if(lettered & F.col("late")).alias("late_dead_lettered"),
            F.max(F.when(lettered, F.col("at_ms"))).alias("dead_lettered_ms"),
        )

    def _entries(self) -> DataFrame:
        """Return the records of the journal: ``value, at_ms, late``."""
        spans = self._snapshot.spans[Kind.JOURNAL]
        early = self._frames.local(
            [(*span.partition, span.early) for span in spans], "topic string, partition int, early bigint"
        )
        records = self._frames.records((span.partition, span.start, span.end) for span in spans)
        return records.join(F.broadcast(early), ["topic", "partition"]).select(
            "value",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
        )


def coverage(journal: DataFrame, snapshot: Snapshot, ordering: Ordering) -> dict[Partition, tuple[int, int]]:
    """Return the offset and the time (epoch ms) from which the journal is complete, by source partition.

    The journal has an outcome for every record from the offset on, and for every record that was read after the time.
    Partitions without entries are missing.

    Records are handled almost in the order of their offsets. So the first acked offset is where the journal was
    switched on, or where it was trimmed to, within the distance that records can be finished out of order.
    """
    if not snapshot.journal:
        return {}
    first = journal.groupBy("topic", "partition").agg(
        F.min(F.when(F.col("outcome") == "acked", F.col("first"))).alias("acked"),
        F.min("first").alias("any"),
        F.min("at_ms").alias("since_ms"),
    )
    rows = {Partition(row["topic"], row["partition"]): row for row in first.collect()}
    found = {}
    for source in snapshot.sources:
        row = rows.get(source.partition)
        if row is not None:
            found[source.partition] = (_begins(row["acked"], row["any"], source.log_start, ordering), row["since_ms"])
    return found


def _begins(acked: int | None, mentioned: int, log_start: int, ordering: Ordering) -> int:
    """Return the first offset that the journal must cover."""
    if acked is None or (mentioned <= log_start and acked - log_start <= OUT_OF_ORDER):
        return mentioned  # it was on from the first record
    return acked if ordering is Ordering.PARTITION else acked + OUT_OF_ORDER
