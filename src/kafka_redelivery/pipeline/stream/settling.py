"""The records that wait for a redelivery, and a run that goes on until none does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.operations.waiting import partitions_of
from kafka_redelivery.pipeline.frames import DONE, Frames, ReaderProgress, header_number, read_progress, stable_ends
from kafka_redelivery.pipeline.stream.start_offsets import ready_topics
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import topic_marks
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_MARKERS_S: Final = 5.0
"""How long to wait for the markers of the last transactions."""

_OVERDUE: Final = Backoff(1.0, 10.0)
_RELEASE_S: Final = 0.2
"""The time a release usually takes."""


class WaitingRecords(NamedTuple):
    """Records in tiers and ready topics without an outcome."""

    number: int
    first_ms: int | None = None
    """When the first is due (epoch ms); ``None`` if their headers do not say it."""

    last_ms: int | None = None

    def __str__(self) -> str:
        """Say how many wait and until when."""
        if not self.number:
            return "no record waits for a redelivery"
        many = "1 record waits" if self.number == 1 else f"{self.number:,} records wait"
        if self.first_ms is None or self.last_ms is None:
            return f"{many} for a redelivery"
        first, last = printable_time(self.first_ms), printable_time(self.last_ms)
        return f"{many} for a redelivery: the first is due at {first}, the last at {last}"


def waiting_records(frames: Frames, settings: Settings, counts: Mapping[str, int]) -> WaitingRecords:
    """Count the records that wait. While a scheduler runs, a record that it releases meanwhile may count twice.

    Args:
        frames: reads records of Kafka.
        settings: the configuration.
        counts: the number of partitions of every topic.

    Raises:
        TransportError: Kafka does not answer.
    """
    naming, offsets = settings.naming(), PartitionOffsets(settings.kafka)
    tiers = partitions_of([*naming.tiers_among(counts), naming.mixed_topic()], counts)
    ready = partitions_of(ready_topics(settings), counts)
    marks = topic_marks(offsets.calls, {each.topic for each in (*tiers, *ready)})
    progress = read_progress(offsets, {scheduler_group(settings.group): tiers, settings.group: ready}, marks).partitions
    waiting = _unfinished(frames, offsets, [*tiers, *ready], progress)
    if waiting is None:
        return WaitingRecords(0)
    due = header_number(SCHEDULED_DELIVERY)
    return WaitingRecords(*waiting.select(due.alias("due")).agg(F.count("*"), F.min("due"), F.max("due")).collect()[0])


def unhandled_records(frames: Frames, settings: Settings, counts: Mapping[str, int]) -> int:
    """Count the records of sources and ready topics that have no outcome yet; otherwise as :func:`waiting_records`."""
    offsets, sources = PartitionOffsets(settings.kafka), [each.topic for each in settings.sources]
    partitions = partitions_of([*sources, *ready_topics(settings)], counts)
    marks = topic_marks(offsets.calls, {each.topic for each in partitions})
    progress = read_progress(offsets, {settings.group: partitions}, marks).partitions
    found = _unfinished(frames, offsets, partitions, progress)
    return 0 if found is None else found.count()


def _unfinished(
    frames: Frames,
    offsets: PartitionOffsets,
    partitions: Iterable[Partition],
    progress: Mapping[Partition, ReaderProgress],
) -> DataFrame | None:
    """Return the records without an outcome; ``None`` = there are none."""
    starts = offsets.log_start_offsets(partitions)
    ends, undecided = stable_ends(offsets, starts, _MARKERS_S)
    ends |= offsets.last_stable_offsets(undecided)  # a transaction of a scheduler may be open
    starts |= {each: max(starts[each], found.watermark) for each, found in progress.items()}
    unread = [(each, start, ends[each]) for each, start in starts.items() if start < ends[each]]
    if not unread:
        return None
    return frames.with_status(frames.records(unread), progress).where(F.col("status") != DONE)


def settle(
    handle: Callable[[], None],
    look: Callable[[], WaitingRecords],
    pause: Callable[[float], bool],
    within: timedelta,
) -> WaitingRecords | None:
    """Handle what is there, and again when waiting records are due, until none waits or the time is over.

    A run that would have to wait for longer than it may does not wait.

    Args:
        handle: handles the records that are there.
        look: counts the records that wait.
        pause: waits for so many seconds; returns whether to go on.
        within: how long to go on.

    Returns:
        what still waits; ``None`` if a pause says not to go on.
    """
    end_s = monotonic_s() + within.total_seconds()
    before, overdue = None, _OVERDUE
    while True:
        handle()
        if not pause(0):
            return None
        waiting = look()
        overdue = (_OVERDUE if waiting != before else overdue).failed(monotonic_s())
        pause_s = max(overdue.pause_s, _left_s(waiting))
        if not waiting.number or monotonic_s() + pause_s > end_s:
            return waiting
        if waiting != before:
            _log.info("%s", waiting)
        before = waiting
        if not pause(pause_s):
            return None


def _left_s(waiting: WaitingRecords) -> float:
    """Return the seconds until the first record is there; negative if it is overdue."""
    return 0.0 if waiting.first_ms is None else (waiting.first_ms - wall_clock_ms()) / 1000 + _RELEASE_S
