"""The meaning of a produced record that the broker refuses, for the consumed record that it was produced for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.writes.batch import Batch, ProducedFor
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)


class DeadLetterRefusedError(HaltedError):
    """The broker refuses a dead letter, or the outcome of one that was sent again.

    Its partition halts, because committing past the record would lose it.
    """

    def __init__(self, message: str, produced_for: ProducedFor) -> None:
        super().__init__(message)
        self.produced_for = produced_for


def judged(error: WriteRefusedError, batch: Batch, is_listed: Callable[[str], bool]) -> WriteRefusedError:
    """Return a refusal in which a missing topic is the fault of the handler that named it, unless it is listed.

    A listed topic existed when the process started, so that its absence is a cause outside the record.

    Args:
        error: the refusal of the batch.
        batch: the batch that was not written.
        is_listed: whether ``outputs`` lists a topic; called with those that do not exist.
    """
    produced_for = batch.produced_for
    refused = []
    for each in error.refused:
        consumed, topic = produced_for[each.index], batch.produced[each.index].topic
        is_output = consumed is not None and consumed.role == "output"
        if each.cause is RefusalCause.MISSING and is_output and not is_listed(topic):
            refused.append(replace(each, cause=RefusalCause.OTHER, reason=f"{topic}: {each.reason}"))
        else:
            refused.append(each)
    return WriteRefusedError(refused, others_written=error.others_written)


def partitions_needing(
    batch: Batch, checkpoints: Mapping[Partition, Checkpoint], refused: Sequence[RefusedRecord]
) -> dict[Partition, tuple[int, RefusedRecord]]:
    """Return the partitions that need the journal or a topic that cannot be written, each with an offset and a refusal.

    A partition that has left this worker is not among them.

    Args:
        batch: the batch that was not written.
        checkpoints: the offsets that it would have committed, of the partitions that are still owned. All of these need
            the journal, for whatever cause it is refused.
        refused: the records that the broker refuses.
    """
    needing: dict[Partition, tuple[int, RefusedRecord]] = {}
    produced_for = batch.produced_for
    for each in refused:
        consumed = produced_for[each.index]
        if consumed is None:
            for partition, checkpoint in checkpoints.items():
                needing.setdefault(partition, (checkpoint.offset - 1, each))
        elif each.cause.outside and not consumed.assigned.closed:
            needing.setdefault(consumed.assigned.partition, (consumed.offset, each))
    return needing


def failure_of_refused_record(produced_for: ProducedFor | None, reason: str) -> tuple[tuple[Partition, int], Failure]:
    """Return partition and offset of the consumed record, and the failure with which to decide it again.

    A refused output is a failed delivery. A refused retry record cannot be redelivered, so its record is dead-lettered.

    Args:
        produced_for: the consumed record; ``None`` = the refused record belongs to the journal.
        reason: the broker's reason.

    Raises:
        DeadLetterRefusedError: the refused record is a dead letter, or the outcome of one that was sent again.
        HaltedError: the refused record belongs to the journal.
    """
    if produced_for is None:
        raise HaltedError(f"the broker refuses the journal: {reason}")
    partition = produced_for.assigned.partition
    location = f"{partition}@{produced_for.offset}"
    _log.warning("the broker refuses the %s of %s: %s", produced_for.role, location, reason)
    if produced_for.role in {"dead letter", "redrive outcome"}:
        problem = f"the broker refuses the {produced_for.role} of {location}: {reason}"
        raise DeadLetterRefusedError(problem, produced_for)
    kind = FailureKind.RAISED if produced_for.role == "output" else FailureKind.UNDELIVERABLE
    return (partition, produced_for.offset), Failure(kind, "WriteRefused", reason)
