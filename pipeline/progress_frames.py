"""Where records stand with the group that reads them, from what it has committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.kafka_frames import ORIGIN, Frames
from topology.progress import Checkpoint
from topology.progress_metadata import decode
from transport.protocols import Partition

DONE, IN_HAND, IN_PLACE, UNREAD = "done", "in_hand", "in_place", "unread"
"""Where a record of a partition stands with its reader."""

MARKS: Final = "topic string, partition int, watermark bigint, seen bigint"
"""A frame with a row for each partition; its last two columns are of :meth:`Standing.mark`."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the reader of a partition is."""

    watermark: int
    """All below is finished."""

    seen: int
    """One past the last offset that was read."""

    outstanding: frozenset[int] = frozenset()
    """Those from the watermark to there that are not finished."""

    in_place: frozenset[int] = frozenset()
    """Those among them that wait where they are."""

    @classmethod
    def of(cls, point: Checkpoint) -> Standing:
        """From a commit.

        Raises:
            ValueError: its metadata is not ours, or damaged.
        """
        if not point.metadata:
            return cls(point.offset, point.offset)
        noted = decode(point.offset, point.metadata)
        waiting = frozenset(offset for offset in noted.waiting if offset in noted.outstanding)
        return cls(point.offset, max(point.offset, noted.end), frozenset(noted.outstanding), waiting)


def standings_of(points: Mapping[Partition, Checkpoint]) -> tuple[dict[Partition, Standing], tuple[Partition, ...]]:
    """Of all commits, and the partitions whose metadata cannot be read: there the offset alone counts."""
    found: dict[Partition, Standing] = {}
    damaged = []
    for place, point in points.items():
        try:
            found[place] = Standing.of(point)
        except ValueError:
            damaged.append(place)
            found[place] = Standing(point.offset, point.offset)
    return found, tuple(damaged)


def mark(standing: Standing | None) -> tuple[int | None, int | None]:
    """Watermark and what was seen; nothing where nothing is committed."""
    return (None, None) if standing is None else (standing.watermark, standing.seen)


def with_standing(
    frames: Frames, records: DataFrame, marks: DataFrame, standings: Mapping[Partition, Standing]
) -> DataFrame:
    """Adds the columns of ``marks``, and ``stands``; what is in a partition without a commit is unread.

    Args:
        frames: makes frames.
        records: with ``topic, partition, offset``.
        marks: a row for each partition, as :data:`MARKS` has it, with any more columns.
        standings: the same, with what is not finished.
    """
    unfinished = frames.local(
        [
            (*place, first, last, waits)
            for place, standing in standings.items()
            for waits, offsets in ((True, standing.in_place), (False, standing.outstanding - standing.in_place))
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


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Inclusive runs of consecutive offsets."""
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
