"""Reads the topic of the jobs, never up to the middle of a job."""

from __future__ import annotations

import logging

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobLog
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)


def read_jobs(settings: Settings, topic: str, log: JobLog, start: int, *, settled: bool = True) -> int:
    """Add the records of the jobs to a log, and return the end that was read.

    The records of a job are one transaction. An end that counts records of open transactions may lie between them, so
    what these have written by then is read, too. Otherwise letters of a job that seems to be known could be listed by
    another one.

    Args:
        settings: how to reach Kafka.
        topic: the topic of the jobs.
        log: gets the records. It has to be settled.
        start: the offset to read first.
        settled: whether to wait for transactions that are open now.

    Raises:
        TransportError: Kafka does not answer or denies access.
        RedriveRecordError: a record cannot be read.
    """
    offsets, partition = PartitionOffsets(settings.kafka), Partition(topic, 0)
    ends = [offsets.high_watermarks, offsets.last_stable_offsets] if settled else [offsets.last_stable_offsets]
    for end_of in ends:
        end = end_of([partition])[partition]
        for message in read_between(settings.kafka, settings.group, {partition: start}, {partition: end}):
            if not log.add(message.offset(), message.key(), message.value()):
                warn_of_foreign(message)
        start = max(start, end)
    return start


def warn_of_foreign(message: Message) -> None:
    """Log that a record is left out, because another program has written it."""
    place = message.topic(), message.partition(), message.offset()
    _log.warning("%s-%d@%d is ignored: another program wrote it; do not let it write there", *place)
