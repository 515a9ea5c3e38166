"""What the journal tells of the records that are audited, and from where on it must tell of all."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from consumers.journal import OUTCOMES
from pipeline.audit_snapshot import Kind, Snapshot
from pipeline.journal_ranges import journal_ranges
from pipeline.kafka_frames import ORIGIN, Frames
from topology.progress_metadata import METADATA_LIMIT
from topology.settings import Ordering
from transport.protocols import Partition

OUT_OF_ORDER: Final = METADATA_LIMIT * 6
"""So far above the watermark can a record be finished at most: each costs a bit of the commit's metadata."""


class JournalFrames:
    """The journal of one audit; empty where it is not used."""

    def __init__(self, frames: Frames, snapshot: Snapshot) -> None:
        self._frames = frames
        self._snapshot = snapshot

    def ranges(self) -> DataFrame:
        """One row for each range of the journal: ``topic, partition, outcome, first, last, at_ms, late``.

        ``last`` is inclusive.
        """
        return journal_ranges(self._entries(), self._snapshot.group, "at_ms", "late")

    def outcomes(self, ranges: DataFrame) -> DataFrame:
        """The same, one row for each source record in the range: how often the journal tells which outcome of it."""
        bounds = self._frames.local(
            [(*source.place, source.first, source.end) for source in self._snapshot.sources],
            "topic string, partition int, begin bigint, finish bigint",
        )
        within = (F.col("last") >= F.col("begin")) & (F.col("first") < F.col("finish"))
        offsets = F.sequence(F.greatest("first", "begin"), F.least(F.col("last"), F.col("finish") - 1))
        told = (
            ranges.join(F.broadcast(bounds), ["topic", "partition"])
            .where(within)
            .select("topic", "partition", F.explode(offsets).alias("offset"), "outcome", "at_ms", "late")
        )
        lettered = F.col("outcome") == "dead_lettered"
        success = F.col("outcome").isin("acked", "recovered", "discarded")
        return told.groupBy(*ORIGIN).agg(
            *(F.count_if(F.col("outcome") == name).alias(name) for name in OUTCOMES),
            F.count_if(success & F.col("late")).alias("late_successes"),
            F.count_if(lettered & F.col("late")).alias("late_dead_lettered"),
            F.max(F.when(lettered, F.col("at_ms"))).alias("dead_lettered_ms"),
        )

    def _entries(self) -> DataFrame:
        """The journal's records: ``value, at_ms, late``."""
        spans = self._snapshot.spans[Kind.JOURNAL]
        early = self._frames.local(
            [(*span.place, span.early) for span in spans], "topic string, partition int, early bigint"
        )
        records = self._frames.records((span.place, span.start, span.end) for span in spans)
        return records.join(F.broadcast(early), ["topic", "partition"]).select(
            "value",
            F.unix_millis("timestamp").alias("at_ms"),
            (F.col("offset") >= F.col("early")).alias("late"),
        )


def coverage(journal: DataFrame, snapshot: Snapshot, ordering: Ordering) -> dict[Partition, tuple[int, int]]:
    """From where on the journal must tell of every source record: an offset, and a time (epoch ms).

    It must tell of all records from this offset on, and of everything that was read after this time. A partition that
    it says nothing of is missing.

    Records are handled in the order of their offsets, or nearly so. The first offset that the journal calls acked is
    therefore where it was switched on, or trimmed to, give or take what can be finished out of order.
    """
    if not snapshot.journal:
        return {}
    first = journal.groupBy("topic", "partition").agg(
        F.min(F.when(F.col("outcome") == "acked", F.col("first"))).alias("acked"),
        F.min("first").alias("any"),
        F.min("at_ms").alias("since_ms"),
    )
    told = {Partition(row["topic"], row["partition"]): row for row in first.collect()}
    found = {}
    for source in snapshot.sources:
        row = told.get(source.place)
        if row is not None:
            found[source.place] = (_begins(row["acked"], row["any"], source.log_start, ordering), row["since_ms"])
    return found


def _begins(acked: int | None, mentioned: int, log_start: int, ordering: Ordering) -> int:
    """The first offset that the journal must tell of."""
    if acked is None or (mentioned <= log_start and acked - log_start <= OUT_OF_ORDER):
        return mentioned  # it was on from the first record, whatever became of that one
    return acked if ordering is Ordering.PARTITION else acked + OUT_OF_ORDER
