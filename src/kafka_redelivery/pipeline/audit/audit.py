"""The audit: counts the state of every source record from the topics alone, and finds missing and doubled records."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.pipeline.audit.evidence import Evidence, coverage
from kafka_redelivery.pipeline.audit.result import AuditResult, Finding, PartitionCounts, RecordCopy, notes
from kafka_redelivery.pipeline.audit.snapshot import RangeBound, Snapshot, take_snapshot
from kafka_redelivery.pipeline.audit.states import FINDINGS, RANGE_SCHEMA, STATES, count_by_origin, record_states
from kafka_redelivery.pipeline.frames import ORIGIN, Frames
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.config.settings import Ordering, Settings
from kafka_redelivery.topology.wire.journal import OUTCOMES
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.preflight import require_rights
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
"""The number of attempts. An audit starts again if Kafka removes records that it was going to read."""

_MAX_COPIES: Final = 20
_COPY_FIELDS: Final = (*ORIGIN, "kind", "deliveries", "finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Options of an audit."""

    first: RangeBound | None = None
    end: RangeBound | None = None
    journal: bool = True
    """Whether to use the journal. Set it to false if the journal was off for some time."""

    archive: str | None = None
    """The table of ``redelivery pipeline archive``, a path or URI. Archived dead letters do not count as missing."""

    listed: int = 20
    """The maximum number of findings in the result."""

    output: Path | None = None
    """A file for all findings, one JSON object per line; overwritten."""


def audit(
    spark: SparkSession,
    settings: Settings,
    options: AuditOptions,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
) -> AuditResult:
    """Audit a group, which may be running.

    Args:
        spark: the session.
        settings: the group's configuration.
        options: range and output.
        on_progress: called with a short description of the current step.

    Raises:
        NotAuthorisedError: the user may not read all topics of the group, so records of them would seem to be missing.
        PipelineError: the range is not valid, a client setting has no translation, or a transaction stays open.
        TransportError: the cluster does not answer.
        OSError: the output cannot be written.
    """
    frames = Frames(spark, kafka_options(settings.kafka))
    require_rights(ClusterAdmin(settings.kafka), settings, AclRole.AUDIT)
    for left in reversed(range(_ATTEMPTS)):
        on_progress("reading the positions")
        snapshot = take_snapshot(settings, wall_clock_ms(), options.first, options.end, journal=options.journal)
        try:
            return _audit_snapshot(Evidence(frames, snapshot), _ordered(settings), options, on_progress)
        except PySparkException:
            trimmed = _trimmed_partition(PartitionOffsets(settings.kafka), snapshot)
            if not left or trimmed is None:
                raise
            _log.info("records of %s-%d were removed while it was read; starting again", *trimmed)
    raise AssertionError("the last attempt returns or raises")


def _ordered(settings: Settings) -> list[str]:
    """Return the sources whose records are handled in the order of their partition, as far as the file says."""
    handlers = {source.topic: settings.handler_of(source.topic) for source in settings.sources}
    return [topic for topic, found in handlers.items() if found is None or found.ordering is Ordering.PARTITION]


def _audit_snapshot(
    evidence: Evidence, ordered: Collection[str], options: AuditOptions, on_progress: Callable[[str], None]
) -> AuditResult:
    on_progress("reading copies, dead letters and the journal")
    snapshot = evidence.snapshot
    with _cached(evidence.copies(options.archive)) as parsed, _cached(evidence.journal()) as ranges:
        covered, again = coverage(ranges, snapshot, ordered)
        copies = evidence.of_present(evidence.attributed(parsed), again)
        unattributed = _unattributed(copies, snapshot)
        states_frame = record_states(
            evidence.sources(),
            evidence.outcomes(ranges, again),
            count_by_origin(copies, snapshot),
            _range(evidence, covered),
            snapshot,
        )
        with _cached(states_frame) as records:
            on_progress("reading the sources")
            partitions = _partition_counts(records, snapshot)
            begins = {partition: at for partition, (at, _) in covered.items()}
            result = AuditResult(
                snapshot=snapshot,
                partitions=partitions,
                findings=(),
                created_again=tuple(sorted(again | snapshot.created_again)),
                unattributed=unattributed,
                notes=tuple(notes(snapshot, partitions, begins, unattributed)),
            )
            found = iter(()) if result.conserved else _findings(records, copies)
            if options.output is not None:
                return replace(result, findings=tuple(_write(found, options.output, options.listed)))
            return replace(result, findings=tuple(islice(found, options.listed)))


def _findings(records: DataFrame, copies: DataFrame) -> Iterator[Finding]:
    """Iterate over all findings by topic, partition and offset. Holds one Spark partition in memory at a time.

    Args:
        records: the result of :func:`record_states`.
        copies: the result of :meth:`Evidence.of_present`.
    """
    found = records.where(F.col("state").isin(*FINDINGS)).select(*ORIGIN, "state", "why", "journal")
    origin = [f"origin_{name}" for name in ORIGIN]
    newest = Window.partitionBy(*origin).orderBy(F.desc("at_ms"), "topic", "partition", "offset")
    copies = (
        copies.join(found.select(*(F.col(name).alias(f"origin_{name}") for name in ORIGIN)), origin, "left_semi")
        .withColumn("number", F.row_number().over(newest))
        .where(F.col("number") <= _MAX_COPIES)
        .groupBy(*(F.col(f"origin_{name}").alias(name) for name in ORIGIN))
        .agg(F.sort_array(F.collect_list(F.struct("number", *_COPY_FIELDS))).alias("copies"))
    )
    rows = found.join(copies, list(ORIGIN), "left").orderBy(*ORIGIN).toLocalIterator()
    return (_finding(row) for row in rows)


def _write(findings: Iterator[Finding], path: Path, listed: int) -> list[Finding]:
    """Write all findings, one JSON object per line.

    Returns:
        the first ``listed`` findings.

    Raises:
        OSError: the file cannot be written.
    """
    first: list[Finding] = []
    with path.open("w", encoding="utf-8") as file:
        for finding in findings:
            if len(first) < listed:
                first.append(finding)
            file.write(json.dumps(finding.document(), ensure_ascii=False) + "\n")
    return first


def _finding(row: Row) -> Finding:
    return Finding(
        **{name: row[name] for name in ("state", *ORIGIN, "why")},
        journal={name: row["journal"][name] for name in OUTCOMES if row["journal"][name]},
        copies=tuple(RecordCopy(*(copy[name] for name in _COPY_FIELDS)) for copy in row["copies"] or ()),
    )


def _range(evidence: Evidence, covered: Mapping[Partition, tuple[int, int]]) -> DataFrame:
    rows = [
        (*source.partition, source.first, source.end, *covered.get(source.partition, (None, None)))
        for source in evidence.snapshot.sources
    ]
    return evidence.frames.local(rows, RANGE_SCHEMA)


def _partition_counts(records: DataFrame, snapshot: Snapshot) -> tuple[PartitionCounts, ...]:
    states: dict[Partition, dict[str, int]] = {}
    waiting: dict[Partition, dict[str, int]] = {}
    for row in records.groupBy("topic", "partition", "state", "place").count().collect():
        partition = Partition(row["topic"], row["partition"])
        mine = states.setdefault(partition, {})
        mine[row["state"]] = mine.get(row["state"], 0) + row["count"]
        if row["place"] is not None:
            waiting.setdefault(partition, {})[row["place"]] = row["count"]
    return tuple(
        PartitionCounts(
            topic=source.partition.topic,
            partition=source.partition.number,
            first=source.first,
            end=source.end,
            states={state: states.get(source.partition, {}).get(state, 0) for state in STATES},
            waiting=waiting.get(source.partition, {}),
        )
        for source in snapshot.sources
    )


def _unattributed(copies: DataFrame, snapshot: Snapshot) -> dict[str, int]:
    sources = sorted({source.partition.topic for source in snapshot.sources})
    foreign = copies.where(F.col("origin_offset").isNull() | ~F.col("origin_topic").isin(sources))
    return {row["topic"]: row["count"] for row in foreign.groupBy("topic").count().orderBy("topic").collect()}


def _trimmed_partition(positions: PartitionOffsets, snapshot: Snapshot) -> Partition | None:
    """Return a partition from which Kafka has removed records since the snapshot that the audit was going to read."""
    starts = snapshot.starts()
    return next(
        (partition for partition, start in positions.log_start_offsets(starts).items() if start > starts[partition]),
        None,
    )


@contextmanager
def _cached(frame: DataFrame) -> Iterator[DataFrame]:
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()
