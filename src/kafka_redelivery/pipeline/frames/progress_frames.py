"""The status of records with the group that reads them, from the group's commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.frames.kafka_frames import ORIGIN, Frames
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import decode
from kafka_redelivery.transport.protocols import Partition

DONE, IN_HAND, IN_PLACE, UNREAD = "done", "in_hand", "in_place", "unread"
"""The status of a record with its reader."""

PROGRESS_SCHEMA: Final = "topic string, partition int, watermark bigint, seen bigint"
"""The schema of a frame with the progress of each partition; see :func:`watermark_and_seen`."""


@dataclass(frozen=True, slots=True)
class ReaderProgress:
    """The progress of the reader of a partition."""

    watermark: int
    """All records below are finished."""

    seen: int
    """One past the last offset that was read."""

    outstanding: frozenset[int] = frozenset()
    """Offsets from ``watermark`` to ``seen`` that are not finished."""

    in_place: frozenset[int] = frozenset()
    """Outstanding offsets that wait in place for their redelivery."""

    @classmethod
    def of(cls, point: Checkpoint) -> ReaderProgress:
        """Decode a commit.

        Raises:
            ValueError: the metadata was not written by this library, or is damaged.
        """
        if not point.metadata:
            return cls(point.offset, point.offset)
        noted = decode(point.offset, point.metadata)
        waiting = frozenset(offset for offset in noted.waiting if offset in noted.outstanding)
        return cls(point.offset, max(point.offset, noted.end), frozenset(noted.outstanding), waiting)


def decode_progress(
    points: Mapping[Partition, Checkpoint],
) -> tuple[dict[Partition, ReaderProgress], tuple[Partition, ...]]:
    """Decode all commits. Also returns the partitions with damaged metadata, of which only the offset counts."""
    found: dict[Partition, ReaderProgress] = {}
    damaged = []
    for partition, point in points.items():
        try:
            found[partition] = ReaderProgress.of(point)
        except ValueError:
            damaged.append(partition)
            found[partition] = ReaderProgress(point.offset, point.offset)
    return found, tuple(damaged)


def watermark_and_seen(reader_progress: ReaderProgress | None) -> tuple[int | None, int | None]:
    """Return the columns ``watermark`` and ``seen``; null without a commit."""
    return (None, None) if reader_progress is None else (reader_progress.watermark, reader_progress.seen)


def with_status(
    frames: Frames, records: DataFrame, marks: DataFrame, progress: Mapping[Partition, ReaderProgress]
) -> DataFrame:
    """Add the columns of ``marks`` and the column ``status``. Records of a partition without a commit are unread.

    Args:
        frames: creates frames.
        records: a frame with ``topic, partition, offset``.
        marks: one row for each partition, see :data:`PROGRESS_SCHEMA`, and any further columns.
        progress: the progress of each partition, for the offsets that are not finished.
    """
    unfinished = frames.local(
        [
            (*partition, first, last, waits)
            for partition, reader_progress in progress.items()
            for waits, offsets in (
                (True, reader_progress.in_place),
                (False, reader_progress.outstanding - reader_progress.in_place),
            )
            for first, last in _runs(offsets)
        ],
        "topic string, partition int, first bigint, last bigint, waits boolean",
    ).select("topic", "partition", F.explode(F.sequence("first", "last")).alias("offset"), "waits")
    status = (
        F.when(F.col("watermark").isNull() | (F.col("offset") >= F.col("seen")), UNREAD)
        .when(F.col("waits"), IN_PLACE)
        .when(F.col("waits").isNotNull(), IN_HAND)
        .otherwise(DONE)
    )
    return (
        records.join(F.broadcast(marks), ["topic", "partition"])
        .join(F.broadcast(unfinished), list(ORIGIN), "left")
        .withColumn("status", status)
    )


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return inclusive ranges of consecutive offsets."""
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
