"""Partitions that are halted because the offset they have to be read from was deleted, has expired, or is unknown."""

from __future__ import annotations

import logging

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver
from kafka_redelivery.transport.errors import PositionDeletedError, grant
from kafka_redelivery.transport.protocols import Partition, Reader

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0
_EXPIRED = -1
_FORBIDDEN = -2
_ACCEPT = "to go on at the log start, run: redelivery topology apply {}"
_RESET = (
    "stop the processes of the group, reset its offset (redelivery topology check prints the command), and start them"
)


class DeletedPositions:
    """Halts each such partition alone until its committed offset is moved. Only the polling thread uses it.

    Kafka does not say whether the deleted offsets held records that this group had to handle, or only transaction
    markers and records of aborted transactions. So no partition goes on by itself: an operator decides, with
    ``redelivery topology apply --accept-loss``. What was fetched before is still handled and committed.

    An operator also decides about a committed offset that Kafka has deleted because the group had no members for too
    long (``offsets.retention.minutes``): nothing shows which records are finished. A committed offset that the user may
    not read needs no decision: the partition goes on when it can be read.

    A position lies beyond the end of the log if Kafka has elected a replica that was not in sync: it has lost records
    that this group has read, and gives their offsets to new ones. The operator stops the group and resets its offset.
    """

    def __init__(self, reader: Reader, assignment: Assignment, observer: ProcessObserver, health: Health) -> None:
        self._reader = reader
        self._assignment = assignment
        self._observer = observer
        self._health = health
        self._positions: dict[Partition, int] = {}
        """The position of each halted partition that does not exist; -1: it has expired, -2: it may not be read."""

        self._pause_s = _FIRST_PAUSE_S
        self._next_s = 0.0
        """When the committed offsets are read again (monotonic)."""

    def halt(self, error: PositionDeletedError) -> None:
        """Halt the partition that the error names."""
        partition = Partition(error.topic, error.number)
        if not self._assignment.find([partition]):
            return  # this worker does not read its topic
        if error.end is None:
            self._assignment.halt_lost(partition, "deleted")
            cause = f"its next offset {error.offset} does not exist any more; whether records were lost is unknown"
            self._halt(partition, error.offset, cause, _ACCEPT.format("--accept-loss"))
        else:
            self._assignment.halt_lost(partition, "truncated")
            cause = (
                f"its next offset {error.offset} lies beyond the end of the log, which is {error.end}; Kafka has lost "
                "records at the end of the log, or the topic was created again"
            )
            self._halt(partition, error.offset, cause, _RESET)

    def halt_opened(self) -> None:
        """Halt the partitions whose committed offset had expired, or could not be read, when they were opened."""
        for partition, records in self._assignment.take_expired().items():
            cause = f"its committed offset has expired; up to {records} records would be handled again"
            self._halt(partition, _EXPIRED, cause, _ACCEPT.format("--accept-repeats"))
        for partition in self._assignment.take_forbidden():
            cause = "its committed offset may not be read; it goes on by itself when it may"
            self._halt(partition, _FORBIDDEN, cause, grant(f"Read on topic {partition.topic}").removeprefix("; "))

    def _halt(self, partition: Partition, offset: int, cause: str, fix: str) -> None:
        self._pause_s = _FIRST_PAUSE_S
        self._next_s = monotonic_s() + self._pause_s
        known = self._positions.get(partition)
        self._positions[partition] = offset
        if known == offset:
            return
        name = f"{partition.topic}-{partition.number}"
        _log.error("%s is halted, other partitions are not: %s; %s", name, cause, fix)
        self._observer.halted(f"{name}: {cause}")
        self._health.note(name, f"{name} is halted: {cause}; {fix}")

    def forget(self, partition: Partition) -> None:
        """Drop the state of a partition that is no longer owned, or is opened again."""
        if self._positions.pop(partition, None) is not None:
            self._health.note(f"{partition.topic}-{partition.number}", "")

    def moved(self) -> list[Partition]:
        """Return the halted partitions that can go on, because they have a committed offset beyond that position.

        Asks Kafka after growing pauses, and only about partitions of which every fetched record is finished.
        """
        if not self._positions or monotonic_s() < self._next_s:
            return []
        idle = [each.partition for each in self._assignment.find(self._positions) if not each.progress.outstanding]
        committed = self._reader.committed_now(idle)
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        self._next_s = monotonic_s() + self._pause_s
        offsets = {partition: _EXPIRED if found is None else found.offset for partition, found in committed.items()}
        moved = [partition for partition, offset in offsets.items() if offset > self._positions[partition]]
        for partition in moved:
            _log.warning("%s-%d goes on: its committed offset was moved, or may be read", *partition)
        return moved
