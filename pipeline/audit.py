"""Conservation, from the topics alone: what became of every record of the sources, and which are missing or doubled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from consumers.clock import Clock, wall_clock_ms
from pipeline.audit_evidence import Evidence
from pipeline.audit_findings import findings_of, write
from pipeline.audit_journal import JournalFrames, coverage
from pipeline.audit_notes import notes
from pipeline.audit_range import Edge
from pipeline.audit_result import AuditResult, Part
from pipeline.audit_snapshot import Snapshot
from pipeline.audit_survey import take
from pipeline.audit_verdicts import RANGE, STATES, by_origin, verdicts
from pipeline.kafka_frames import Frames
from pipeline.kafka_options import kafka_options
from pipeline.table_format import TableFormat
from topology.settings import Ordering, Settings
from transport.admin import ClusterAdmin
from transport.positions import Positions
from transport.preflight import survey
from transport.protocols import Partition

_log = logging.getLogger(__name__)

_TIMES: Final = 3
"""So often an audit is begun because what it was about to read has been removed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What is asked for."""

    first: Edge | None = None
    end: Edge | None = None
    journal: bool = True
    """False leaves the journal unread: for where it was off for a while."""

    archive: str | None = None
    """The table of ``redelivery pipeline archive``, a path or URI: a dead letter that is there is not missing."""

    archive_format: TableFormat = TableFormat.PARQUET
    listed: int = 20
    """So many findings come with the result."""

    output: Path | None = None
    """A file for all of them, one JSON object a line; written anew."""


def audit(
    spark: SparkSession,
    settings: Settings,
    options: AuditOptions,
    *,
    tell: Callable[[str], None] = lambda _: None,
    clock: Clock = wall_clock_ms,
) -> AuditResult:
    """Audit a group, which may be running.

    Args:
        spark: the session.
        settings: the group's configuration.
        options: range and output.
        tell: is told, in a few words, what is being done.
        clock: epoch ms.

    Raises:
        PipelineError: the range is none, a client setting has no translation, or a transaction stays open.
        TransportError: the cluster cannot be asked.
        OSError: the output cannot be written.
    """
    connection = kafka_options(settings.kafka)
    positions = Positions(settings.kafka)
    for left in reversed(range(_TIMES)):
        tell("looking where everybody is")
        planned, cluster = survey(ClusterAdmin(settings.kafka), settings)
        edges = options.first, options.end
        snapshot = take(settings, planned, cluster, positions, clock(), *edges, journal=options.journal)
        ordering = Ordering.PARTITION if settings.handler is None else settings.handler.ordering
        try:
            return _audited(Frames(spark, connection), snapshot, ordering, options, tell)
        except PySparkException:
            gone = _gone(positions, snapshot)
            if not left or gone is None:
                raise
            _log.info("%s-%d was trimmed while it was read, beginning anew", *gone)
    raise AssertionError("the last time ends in one way or the other")


def _audited(
    frames: Frames, snapshot: Snapshot, ordering: Ordering, options: AuditOptions, tell: Callable[[str], None]
) -> AuditResult:
    tell("reading copies, dead letters and the journal")
    evidence, journal = Evidence(frames, snapshot), JournalFrames(frames, snapshot)
    with _kept(evidence.copies(options.archive, options.archive_format)) as said, _kept(journal.ranges()) as ranges:
        copies = evidence.attributed(said)
        unattributed = _unattributed(copies, snapshot)
        covered = coverage(ranges, snapshot, ordering)
        judged = verdicts(
            evidence.sources(),
            journal.outcomes(ranges),
            by_origin(copies, snapshot),
            _range(frames, snapshot, covered),
            snapshot,
        )
        with _kept(judged) as records:
            tell("reading the sources")
            parts = _parts(records, snapshot)
            begins = {place: at for place, (at, _) in covered.items()}
            result = AuditResult(
                group=snapshot.group,
                taken_ms=snapshot.taken_ms,
                journal=snapshot.journal,
                parts=parts,
                findings=(),
                removed=snapshot.removed,
                unattributed=unattributed,
                notes=tuple(notes(snapshot, parts, begins, unattributed)),
            )
            found = iter(()) if result.conserved else findings_of(records, copies)
            if options.output is not None:
                return replace(result, findings=tuple(write(found, options.output, options.listed)))
            return replace(result, findings=tuple(islice(found, options.listed)))


def _range(frames: Frames, snapshot: Snapshot, covered: Mapping[Partition, tuple[int, int]]) -> DataFrame:
    rows = [
        (*source.place, source.first, source.end, *covered.get(source.place, (None, None)))
        for source in snapshot.sources
    ]
    return frames.local(rows, RANGE)


def _parts(records: DataFrame, snapshot: Snapshot) -> tuple[Part, ...]:
    states: dict[Partition, dict[str, int]] = {}
    waiting: dict[Partition, dict[str, int]] = {}
    for row in records.groupBy("topic", "partition", "state", "place").count().collect():
        place = Partition(row["topic"], row["partition"])
        mine = states.setdefault(place, {})
        mine[row["state"]] = mine.get(row["state"], 0) + row["count"]
        if row["place"] is not None:
            waiting.setdefault(place, {})[row["place"]] = row["count"]
    return tuple(
        Part(
            topic=source.place.topic,
            partition=source.place.number,
            first=source.first,
            end=source.end,
            states={state: states.get(source.place, {}).get(state, 0) for state in STATES},
            waiting=waiting.get(source.place, {}),
        )
        for source in snapshot.sources
    )


def _unattributed(copies: DataFrame, snapshot: Snapshot) -> dict[str, int]:
    sources = sorted({source.place.topic for source in snapshot.sources})
    foreign = copies.where(F.col("origin_offset").isNull() | ~F.col("origin_topic").isin(sources))
    return {row["topic"]: row["count"] for row in foreign.groupBy("topic").count().orderBy("topic").collect()}


def _gone(positions: Positions, snapshot: Snapshot) -> Partition | None:
    """A partition of which something has been removed since the snapshot that was still to be read."""
    starts = snapshot.starts()
    return next((place for place, start in positions.starts(starts).items() if start > starts[place]), None)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, read once, however often it is used in the block."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()
