"""What follows for consumed records when the broker refuses those that were produced for them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.writes.batch import Batch, ProducedFor
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.errors import RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)


class Refusals(Protocol):
    """What to do when the broker refuses records of a batch."""

    def handle(self, batch: Batch, error: WriteRefusedError) -> Collection[Partition] | None:
        """Return the partitions that halt; ``None`` if the outcomes of the refused records were decided again."""


class HaltingRefusals:
    """Halts the partitions that cannot go on, and keeps the failures of refused records. For the polling thread.

    Nothing is done about a partition that has left this worker: its next owner handles the records again.
    """

    def __init__(self, write_failures: dict[tuple[Partition, int], Failure], stops: Stops) -> None:
        """Prepare.

        Args:
            write_failures: get those of the refused records, for the next time that the consumed records are fetched.
            stops: receives the partitions that halt.
        """
        self._write_failures = write_failures
        self._stops = stops

    def handle(self, batch: Batch, error: WriteRefusedError) -> set[Partition]:
        """Halt partitions and store failures.

        A partition halts whose record needs a topic that cannot be written, or whose dead letter, or redrive outcome,
        is refused. Every partition needs the journal, for whatever cause it is refused.

        Returns:
            the partitions that halt.
        """
        halting: set[Partition] = set()
        produced_for = batch.produced_for
        for refused in error.refused:
            consumed = produced_for[refused.index]
            if consumed is None:
                for partition in batch.before:
                    self._halt(partition, batch.checkpoints[partition].offset - 1, batch, refused, halting)
                continue
            assigned, offset, role = consumed
            if assigned.closed:
                continue
            failure = None if refused.cause.outside else failure_of(consumed, refused.reason)
            if failure is None:
                self._halt(assigned.partition, offset, batch, refused, halting, output=role == "output")
            else:
                self._write_failures[assigned.partition, offset] = failure
        return halting

    def _halt(
        self,
        partition: Partition,
        offset: int,
        batch: Batch,
        refused: RefusedRecord,
        halting: set[Partition],
        *,
        output: bool = False,
    ) -> None:
        if partition not in halting:
            halting.add(partition)
            record = batch.produced[refused.index]
            self._stops.refuse(partition, offset, record, refused, output=output)


def failure_of(consumed: ProducedFor, reason: str) -> Failure | None:
    """Return the failure with which to decide a consumed record again, because the broker refuses what was produced.

    A refused output is a failed delivery. A refused retry record cannot be redelivered, so its record is dead-lettered.

    Returns:
        ``None`` for a dead letter, or the outcome of one that was sent again: to commit past the record would lose it.
    """
    _log.warning(
        "the broker refuses the %s of %s@%d: %s", consumed.role, consumed.assigned.partition, consumed.offset, reason
    )
    if consumed.role in {"dead letter", "redrive outcome"}:
        return None
    kind = FailureKind.RAISED if consumed.role == "output" else FailureKind.UNDELIVERABLE
    return Failure(kind, "WriteRefused", reason)
