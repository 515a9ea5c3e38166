"""The offsets a streaming query starts from: the group's committed offsets, so that no record is skipped."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.telemetry.observers import HaltCause
from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics, topics_of
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.admin.control_topic import ControlTopic
from kafka_redelivery.transport.client_config import consumer_config, producer_config, source_start
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition, Reader

_log = logging.getLogger(__name__)

_READ_S: Final = 60.0
_SAVE_S: Final = 5.0
"""The longest time that a query which stops reads the control topic."""

_NOTE_S: Final = 20.0
"""The longest time that Kafka may take to confirm which partitions have an offset now."""


def partitions_of(settings: Settings, counts: Mapping[str, int]) -> frozenset[Partition]:
    """Return every partition of the sources and their ready topics."""
    topics = topics_of(settings)
    return frozenset(Partition(topic, number) for topic in topics for number in range(counts[topic]))


def ready_topics(settings: Settings) -> list[str]:
    """Return the ready topics of the sources."""
    naming = settings.naming()
    return [naming.ready_topic(each.topic) for each in settings.sources]


def partition_counts(settings: Settings) -> dict[str, int]:
    """Return the number of partitions of every topic of the cluster.

    Raises:
        ReaderError: the broker does not answer.
    """
    reader = GroupReader(consumer_config(settings.kafka, group=settings.group, instance=None))
    try:
        return reader.partition_counts()
    finally:
        reader.close()


def start_offsets(
    settings: Settings, wanted: frozenset[Partition], member: object, topics: ReadTopics
) -> dict[Partition, int]:
    """Return the offset that each partition is read from. Those whose committed offset has expired are left out.

    A partition without a commit starts where a worker would start (:class:`FirstOffsets`). That offset is committed
    now. Otherwise a worker, or a query without this checkpoint, that takes over before the first record is handled
    could start later and skip records.

    Args:
        settings: the configuration.
        wanted: the partitions.
        member: the driver's membership of the group.
        topics: receives which topics these are now.

    Raises:
        PipelineRefusedError: a worker left records that wait in place, which a query cannot continue.
        ReaderError: the broker does not answer, or refuses to drop a saved position.
        ControlRecordError: another program has written to the control topic.
        TransportError: the broker refuses the commit.
    """
    with _group_offsets(settings, topics) as (reader, control, first_offsets):
        control.read()  # it says of which topics the group had partitions, which may be older ones of these names
        committed = first_offsets.positions(sorted(wanted))
        topics.found, topics.named_in_commits = first_offsets.found, first_offsets.names_topics
        starts: dict[Partition, Checkpoint] = {}
        ready = ready_topics(settings)
        for partition, known in committed.items():
            if known is not None:
                _refuse_waiting(partition, known)
                starts[partition] = known
            elif (
                first := first_progress(first_offsets, reader, partition, internal=partition.topic in ready)
            ) is not None:
                starts[partition] = first.checkpoint()
        restored = first_offsets.restored
        initial = {each: start for each, start in starts.items() if committed[each] is None or each in restored}
        if initial:
            config = producer_config(settings.kafka, transactional_id=f"{settings.group}.spark")
            writer = TransactionalWriter(config, reader, topic=settings.naming().control_topic())
            try:
                writer.write((), initial, group_metadata=member)
            finally:
                writer.close()
        if restored:
            control.begin(restored)  # these positions are committed now, and what was saved is dropped
        first_offsets.note_first_offsets({partition: start.offset for partition, start in starts.items()})
        return {partition: start.offset for partition, start in starts.items()}


def save_positions(settings: Settings, partitions: Iterable[Partition], topics: ReadTopics) -> None:
    """Save the committed positions of the group, as a worker does when it stops, so that they may expire.

    No task may commit any more, and no other process may have taken over. A failure is only logged.
    """
    partitions = sorted(partitions)
    with _group_offsets(settings, topics, _SAVE_S) as (_, control, first_offsets):
        try:
            control.read()
            marks = {each: topics.marks.get(each.topic, "") for each in partitions}
            control.know(marks, {})  # positions are saved with the mark of the topic that the query has read
            first_offsets.save(partitions)
        except (ReaderError, ControlRecordError) as error:
            _log.warning("the last positions are not saved: %s", error)


@contextmanager
def _group_offsets(
    settings: Settings, topics: ReadTopics, timeout_s: float = _READ_S
) -> Iterator[tuple[GroupReader, ControlTopic, FirstOffsets]]:
    reader = GroupReader(consumer_config(settings.kafka, group=settings.group, instance=None))
    topic = settings.naming().control_topic()
    control = ControlTopic(settings.kafka, settings.group, topic, wall_clock_ms, timeout_s)
    try:
        start = source_start(settings.kafka)
        yield reader, control, FirstOffsets(reader, start, control, topics.watch, topics.found)
    finally:
        control.close(_NOTE_S)
        reader.close()


def _refuse_waiting(partition: Partition, committed: Checkpoint) -> None:
    if Progress.restore(committed.offset, committed.metadata).waiting:
        raise PipelineRefusedError(
            f"in {partition} records wait in place, left by a worker with "
            "nonBlockingRedelivery: false; let a worker with the same configuration finish them first"
        )


def first_progress(
    first_offsets: FirstOffsets, reader: Reader, partition: Partition, *, internal: bool
) -> Progress | None:
    """Return where a partition without a commit starts, ``None`` if that has expired; wait for its leader."""
    bounds = None
    while True:
        start = first_offsets.start(partition, {partition: None}, internal=internal, repeated="handled", bounds=bounds)
        if isinstance(start.found, Progress):
            return start.found
        if start.found.label.cause is not HaltCause.OFFLINE:
            return None
        bounds = reader.bounds(partition)
