"""The meaning of a produced record that the broker refuses for good, for the consumed record it was produced for."""

from __future__ import annotations

import logging

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.writes.batch import ProducedFor
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)


class DeadLetterRefusedError(HaltedError):
    """The broker refuses a dead letter. Its partition halts, because committing past the record would lose it."""

    def __init__(self, message: str, produced_for: ProducedFor) -> None:
        super().__init__(message)
        self.produced_for = produced_for


def failure_of_refused_record(produced_for: ProducedFor | None, reason: str) -> tuple[tuple[Partition, int], Failure]:
    """Return partition and offset of the consumed record, and the failure with which to decide it again.

    A refused output is a failed delivery. A refused retry record cannot be redelivered, so its record is dead-lettered.

    Args:
        produced_for: the consumed record; ``None`` = the refused record belongs to the journal.
        reason: the broker's reason.

    Raises:
        DeadLetterRefusedError: the refused record is a dead letter.
        HaltedError: the refused record belongs to the journal.
    """
    if produced_for is None:
        raise HaltedError(f"the broker refuses the journal: {reason}")
    partition = produced_for.assigned.partition
    location = f"{partition.topic}-{partition.number}@{produced_for.offset}"
    _log.warning("the broker refuses the %s of %s: %s", produced_for.role, location, reason)
    if produced_for.role == "dead letter":
        problem = f"the broker refuses the dead letter of {location}: {reason}"
        raise DeadLetterRefusedError(problem, produced_for)
    kind = FailureKind.RAISED if produced_for.role == "output" else FailureKind.UNDELIVERABLE
    return (partition, produced_for.offset), Failure(kind, "WriteRefused", reason)
