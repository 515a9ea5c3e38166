"""Counts the records that wait for a redelivery when a run that handles what is there has ended."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.pipeline.stream.start_offsets import ready_topics
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.topology.wire.topic_mark import is_void
from kafka_redelivery.transport.admin.identities import topic_marks
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARKERS_S: Final = 5.0
_POLL_S: Final = 0.1


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


def waiting_records(
    session: SparkSession, settings: Settings, options: Mapping[str, str], counts: Mapping[str, int]
) -> WaitingRecords:
    """Count the records that wait. While a scheduler runs, a record that it releases meanwhile may count twice.

    Args:
        session: the session.
        settings: the configuration.
        options: options of the Kafka source.
        counts: the number of partitions of every topic.

    Raises:
        TransportError: Kafka does not answer.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    from kafka_redelivery.pipeline.frames.kafka_frames import Frames, header_number  # noqa: PLC0415 - needs PySpark
    from kafka_redelivery.pipeline.frames.progress_frames import (  # noqa: PLC0415 - needs PySpark
        DONE,
        PROGRESS_SCHEMA,
        decode_progress,
        watermark_and_seen,
        with_status,
    )

    naming, offsets = settings.naming(), PartitionOffsets(settings.kafka)
    tiers = _partitions([*naming.tiers_among(counts), naming.mixed_topic()], counts)
    ready = _partitions(ready_topics(settings), counts)
    commits = offsets.committed(scheduler_group(settings.group), tiers) | offsets.committed(settings.group, ready)
    topics = topic_marks(offsets.calls, {each.topic for each in commits})
    present = {each: at for each, at in commits.items() if not is_void(at.metadata, topics.get(each.topic, ""))}
    progress, _ = decode_progress(present)
    starts, ends = offsets.log_start_offsets([*tiers, *ready]), _ends(offsets, [*tiers, *ready])
    starts |= {each: max(starts[each], found.watermark) for each, found in progress.items()}
    unread = [(each, start, ends[each]) for each, start in starts.items() if start < ends[each]]
    if not unread:
        return WaitingRecords(0)
    frames = Frames(session, options)
    marks = frames.local([(*each, *watermark_and_seen(progress.get(each))) for each in starts], PROGRESS_SCHEMA)
    waiting = with_status(frames, frames.records(unread), marks, progress).where(F.col("status") != DONE)
    due = header_number(SCHEDULED_DELIVERY)
    return WaitingRecords(*waiting.select(due.alias("due")).agg(F.count("*"), F.min("due"), F.max("due")).collect()[0])


def _ends(offsets: PartitionOffsets, partitions: list[Partition]) -> dict[Partition, int]:
    """Return the end offsets of committed records.

    Kafka answers a commit before it has written the markers of the transaction, and until then the records behind it
    are not visible. This waits for the markers, for at most five seconds: a transaction of a scheduler may be open.
    """
    wanted = offsets.high_watermarks(partitions)
    pause, deadline_s = Event(), monotonic_s() + _MARKERS_S
    while True:
        ends = offsets.last_stable_offsets(partitions)
        if all(ends[each] >= wanted[each] for each in partitions) or monotonic_s() > deadline_s:
            return ends
        pause.wait(_POLL_S)


def _partitions(topics: list[str], counts: Mapping[str, int]) -> list[Partition]:
    return [Partition(topic, number) for topic in topics for number in range(counts.get(topic, 0))]
