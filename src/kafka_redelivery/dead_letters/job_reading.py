"""Reads the topic of the jobs, never up to the middle of a job, and counts what cannot be read."""

from __future__ import annotations

import logging
from typing import Final

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.job import Job, JobLog, edited_value
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)


_NAMED: Final = 20


class LeftOut:
    """The records of the jobs and the actions that cannot be read. They are a problem of what they are about alone."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[str, str]] = []
        """The first of them: ``topic-partition@offset``, and why it cannot be read."""

        self._told = 0

    def add(self, message: Message, error: RedriveRecordError | None = None) -> None:
        """Add a record; without an error another program wrote it."""
        self.count += 1
        if len(self.first) < _NAMED:
            why = "another program wrote it; do not let it write there" if error is None else str(error)
            self.first.append((f"{message.topic()}-{message.partition()}@{message.offset()}", why))

    def tell(self) -> None:
        """Log a warning for each record that was added since the last call, as far as they are named."""
        for name, why in self.first[self._told :]:
            _log.warning("%s is left out: %s", name, why)
        unnamed = self.count - max(self._told, len(self.first))
        if unnamed > 0:
            _log.warning("%d more records are left out", unnamed)
        self._told = self.count


def read_jobs(
    settings: Settings,
    topic: str,
    log: JobLog,
    start: int,
    left_out: LeftOut,
    *,
    settled: bool = True,
    offsets: PartitionOffsets | None = None,
) -> int:
    """Add the records of the jobs to a log, and return the end that was read.

    The records of a job are one transaction. An end that counts records of open transactions may lie between them, so
    what these have written by then is read, too. Otherwise letters of a job that seems to be known could be listed by
    another one.

    Args:
        settings: how to reach Kafka.
        topic: the topic of the jobs.
        log: gets the records. It has to be settled.
        start: the offset to read first.
        left_out: gets the records that cannot be read.
        settled: whether to wait for transactions that are open now.
        offsets: asks for the end of the topic; without it a new client does.

    Raises:
        TransportError: Kafka does not answer or denies access.
    """
    offsets, partition = offsets or PartitionOffsets(settings.kafka), Partition(topic, 0)
    ends = [offsets.high_watermarks, offsets.last_stable_offsets] if settled else [offsets.last_stable_offsets]
    for end_of in ends:
        end = end_of([partition])[partition]
        for message in read_between(settings.kafka, settings.group, {partition: start}, {partition: end}):
            try:
                if not log.add(message.offset(), message.key(), message.value()):
                    left_out.add(message)
            except RedriveRecordError as error:
                left_out.add(message, error)
        start = max(start, end)
    return start


def read_edited(settings: Settings, jobs_topic: str, job: Job) -> bytes:
    """Return the value that a job sends instead of that of its letter.

    Raises:
        RedriveRecordError: it cannot be read as it was written.
        TransportError: Kafka does not answer or denies access.
    """
    if job.spec.edited is None or not job.edit_offsets:
        raise RedriveRecordError(job.id, "it has no edited value")
    partition, wanted = Partition(jobs_topic, 0), set(job.edit_offsets)
    starts, ends = {partition: min(wanted)}, {partition: max(wanted) + 1}
    found = read_between(settings.kafka, settings.group, starts, ends)
    return edited_value(job.spec.edited, [each.value() for each in found if each.offset() in wanted])
