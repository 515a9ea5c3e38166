"""Partitions that are halted because the offset they have to be read from was deleted, has expired, or is unknown."""

from __future__ import annotations

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.lost_position import LostPosition
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Partition, Reader

_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0


class LostPositions:
    """Halts each such partition alone until its committed offset is moved. Only the polling thread uses it.

    Kafka does not say whether the deleted offsets held records that this group had to handle, or only transaction
    markers and records of aborted transactions. So no partition goes on by itself: an operator decides, with
    ``redelivery topology apply --accept-loss``. What was fetched before is still handled and committed.

    An operator also decides about a committed offset that Kafka has deleted because the group had no members for too
    long (``offsets.retention.minutes``): nothing shows which records are finished. A committed offset that the user may
    not read needs no decision: the partition goes on when it can be read. So does one without a committed offset while
    the control topic cannot be read.

    A position lies beyond the end of the log if Kafka has elected a replica that was not in sync: it has lost records
    that this group has read, and gives their offsets to new ones. The operator stops the group and resets its offset.
    """

    def __init__(self, reader: Reader, assignment: Assignment, observer: ProcessObserver, health: Health) -> None:
        self._reader = reader
        self._assignment = assignment
        self._observer = observer
        self._health = health
        self._lost: dict[Partition, LostPosition] = {}
        """The position of each halted partition."""

        self._pause_s = _FIRST_PAUSE_S
        self._next_s = 0.0
        """When the committed offsets are read again (monotonic)."""

    def halt(self, error: PositionDeletedError) -> None:
        """Halt the partition that the error names."""
        lost = LostPosition.of(error)
        if not self._assignment.find([lost.partition]):
            return  # this worker does not read its topic
        known = self._lost.get(lost.partition)
        if known is not None and not known.opened:
            return
        self._assignment.halt_lost(lost.partition, lost.label)
        self._halt(lost)

    def halt_opened(self) -> None:
        """Halt the partitions that had no position when they were opened."""
        for lost in self._assignment.take_lost():
            self._halt(lost)

    def _halt(self, lost: LostPosition) -> None:
        self._pause_s = _FIRST_PAUSE_S
        self._next_s = monotonic_s() + self._pause_s
        known = self._lost.get(lost.partition)
        self._lost[lost.partition] = lost
        if not lost.repeats(known):
            lost.report(self._observer, self._health)

    def forget(self, partition: Partition) -> None:
        """Drop the state of a partition that is no longer owned, or is opened again."""
        lost = self._lost.pop(partition, None)
        if lost is not None:
            lost.withdraw(self._health)

    def moved(self) -> list[Partition]:
        """Return the halted partitions that can go on, mostly because they have an offset beyond that position.

        Asks Kafka after growing pauses, and only about partitions of which every fetched record is finished.
        """
        if not self._lost or monotonic_s() < self._next_s:
            return []
        idle = [each.partition for each in self._assignment.find(self._lost) if not each.progress.outstanding]
        committed = self._assignment.present(self._reader.committed_now(idle))
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        self._next_s = monotonic_s() + self._pause_s
        control_read = self._assignment.control_read
        return [
            partition
            for partition, found in committed.items()
            if self._lost[partition].can_go_on(found, control_read=control_read)
        ]
