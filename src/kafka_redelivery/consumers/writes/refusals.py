"""What follows when the broker refuses records of a write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.halted_partitions import HaltedPartitions
from kafka_redelivery.consumers.telemetry.observers import WorkerObserver
from kafka_redelivery.consumers.writes.aborted_write import starting, unreadable_topics
from kafka_redelivery.consumers.writes.batch import Batch, ProducedFor
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.refused_records import (
    DeadLetterRefusedError,
    failure_of_refused_record,
    judged,
    partitions_needing,
)
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusedRecord, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import BackgroundWriter, Partition, ProducerRecord

_log = logging.getLogger(__name__)


class Refused(NamedTuple):
    """What became of a write with refused records."""

    error: WriteRefusedError
    """The refusal, in which a missing output that is not listed is the fault of its record."""

    committed: Mapping[Partition, Checkpoint]
    """The offsets that are committed nevertheless, because all records of these partitions are written."""

    halted: list[AssignedPartition]
    """The partitions that halt because the broker refuses a dead letter."""

    unreadable: Collection[str]
    """The topics whose offsets may not be committed; see :func:`unreadable_topics`."""


class Refusals:
    """Halts the partitions that cannot go on, and keeps the failures of refused records. For the polling thread.

    Nothing is done about a partition that has left this worker: its next owner handles the records again.
    """

    def __init__(
        self,
        dependencies: BatchDependencies,
        writer: BackgroundWriter,
        observer: WorkerObserver,
        halted: HaltedPartitions,
        is_listed: Callable[[str], bool],
    ) -> None:
        """Prepare.

        Args:
            dependencies: its write failures get those of the refused records.
            writer: commits the offsets of the partitions whose records are written.
            observer: receives the causes of halts.
            halted: receives the partitions that halt.
            is_listed: whether ``outputs`` lists a topic; called with those that do not exist.
        """
        self._write_failures = dependencies.write_failures
        self._writer = writer
        self._observer = observer
        self._halted = halted
        self._is_listed = is_listed

    def handle(self, batch: Batch, checkpoints: Mapping[Partition, Checkpoint], refusal: WriteRefusedError) -> Refused:
        """Halt partitions, store failures, and commit the others if their records are written.

        Args:
            batch: the batch that was to be written.
            checkpoints: the offsets that the write would have committed.
            refusal: the refusal.
        """
        owned = {each: point for each, point in checkpoints.items() if not batch.touched[each].closed}
        error = judged(refusal, batch, self._is_listed)
        needing = self._halt_unwritable(batch, owned, error)
        others = {partition: each for partition, each in owned.items() if partition not in needing}
        committed, unreadable = self._commit(batch, others) if error.others_written else ({}, ())
        produced_for = batch.produced_for
        refused = [(produced_for[each.index], each) for each in error.refused if not each.cause.outside]
        halted = [
            consumed.assigned
            for consumed, each in refused
            if consumed is not None
            and not consumed.assigned.closed
            and not self._note_failure(consumed, batch.produced[each.index], each)
        ]
        return Refused(error, committed, halted, unreadable)

    def _halt_unwritable(
        self, batch: Batch, owned: Mapping[Partition, Checkpoint], error: WriteRefusedError
    ) -> Collection[Partition]:
        """Halt the partitions whose records go to topics that cannot be written, or to the journal, and return them."""
        needing = partitions_needing(batch, owned, error.refused)
        for partition, (offset, refused) in needing.items():
            consumed = batch.produced_for[refused.index]
            output = consumed is not None and consumed.role == "output"
            problem = self._halted.halt(partition, offset, batch.produced[refused.index], refused, output=output)
            self._observer.halted(problem)
        return needing

    def _commit(
        self, batch: Batch, checkpoints: Mapping[Partition, Checkpoint]
    ) -> tuple[Mapping[Partition, Checkpoint], Collection[str]]:
        """Commit the offsets of partitions whose records are all written, because there is no transaction.

        Returns:
            The committed offsets, and the topics whose offsets may not be committed.
        """
        try:
            self._writer.finish(checkpoints)
        except WriteAbortedError as error:
            _log.warning("the offsets of the other partitions cannot be committed: %s", error)
            return {}, unreadable_topics(error, starting(batch, checkpoints))
        return checkpoints, ()

    def _note_failure(self, consumed: ProducedFor, record: ProducerRecord, refused: RefusedRecord) -> bool:
        """Store the failure for the next time that the consumed record is fetched.

        Returns:
            Whether it is stored. Otherwise the partition halts, because the broker refuses a dead letter of it.
        """
        try:
            location, failure = failure_of_refused_record(consumed, refused.reason)
        except DeadLetterRefusedError:
            partition = consumed.assigned.partition
            self._observer.halted(self._halted.halt(partition, consumed.offset, record, refused))
            return False
        self._write_failures[location] = failure
        return True
