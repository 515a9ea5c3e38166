"""Why the position of a partition cannot be read from, as the log and the readiness probe say it, and how to go on."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final, Self

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import newer_format
from kafka_redelivery.transport.errors import PositionDeletedError, grant
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_EXPIRED: Final = -1
_UNKNOWN: Final = -2
_ACCEPT: Final = "to go on at the log start, run: redelivery topology apply {}"
_CHANGED: Final = "it goes on by itself when the commit has changed"
_COMMIT_AGAIN: Final = (
    "stop the processes of the group, commit the offset again without metadata "
    "(kafka-consumer-groups.sh --reset-offsets --to-offset {offset}), and start them"
)
_RESET: Final = (
    "stop the processes of the group, reset its offset (kafka-consumer-groups.sh --reset-offsets --to-earliest), and "
    "start them"
)


@dataclass(frozen=True, slots=True)
class LostPosition:
    """A partition that halts alone, because the offset that it has to be read from does not exist, or is unknown."""

    partition: Partition
    offset: int
    """The offset that does not exist; -1: it has expired, -2: it is unknown."""

    label: str
    """The cause in the metric.

    It is ``deleted``, ``truncated`` (beyond the end of the log), ``expired``, ``forbidden`` (the committed offset may
    not be read), ``control`` (the control topic cannot be read) or ``metadata`` (of another tool, beside the offset).
    """

    cause: str
    fix: str
    committed: Checkpoint | None = None
    """What is committed, if its metadata cannot be read."""

    def __str__(self) -> str:
        """Say what is halted, why, and how to go on."""
        name = str(self.partition)
        return f"{name} is halted, other partitions are not: {self.cause}; {self.fix}"

    @classmethod
    def of(cls, error: PositionDeletedError) -> Self:
        """Return what the reader has found: the next offset was deleted, or was beyond the end of the log."""
        partition = Partition(error.topic, error.number)
        if error.end is None:
            return cls.deleted(partition, error.offset)
        cause = (
            f"its next offset {error.offset} was beyond the end of the log, which is {error.end} now; Kafka has lost "
            "records at the end of the log, or the topic was created again, which ends this halt within seconds"
        )
        return cls(partition, error.offset, "truncated", cause, f"if it is still halted in a minute, {_RESET}")

    @classmethod
    def deleted(cls, partition: Partition, offset: int) -> Self:
        """Return what a next offset means that was deleted."""
        cause = f"its next offset {offset} does not exist any more; whether records were lost is unknown"
        return cls(partition, offset, "deleted", cause, _ACCEPT.format("--accept-loss"))

    @classmethod
    def expired(cls, partition: Partition, records: int, repeated: str) -> Self:
        """Return what an expired offset means.

        Args:
            partition: the partition.
            records: how many of its records would be repeated at most.
            repeated: what would be done again with them, as a participle.
        """
        cause = f"its committed offset has expired; up to {records} records would be {repeated} again"
        return cls(partition, _EXPIRED, "expired", cause, _ACCEPT.format("--accept-repeats"))

    @classmethod
    def forbidden(cls, partition: Partition) -> Self:
        """Return what a committed offset means that may not be read."""
        cause = "its committed offset may not be read; it goes on by itself when it may"
        fix = grant(f"Read on topic {partition.topic}").removeprefix("; ")
        return cls(partition, _UNKNOWN, "forbidden", cause, fix)

    @classmethod
    def control(cls, partition: Partition, problem: str) -> Self:
        """Return what a missing committed offset means while the control topic cannot be read, because of a problem."""
        cause = f"it has no committed offset, and where it starts is unknown: {problem}"
        return cls(partition, _UNKNOWN, "control", cause, "it goes on by itself when the control topic can be read")

    @classmethod
    def metadata(cls, partition: Partition, position: Checkpoint, problem: str, *, saved: bool) -> Self:
        """Return what a position means whose metadata cannot be read.

        Args:
            partition: the partition.
            position: where it would start.
            problem: what is wrong with the metadata.
            saved: whether it is a saved position, and nothing is committed.
        """
        fix = _CHANGED if newer_format(position.metadata) else _COMMIT_AGAIN.format(offset=position.offset)
        return cls(partition, position.offset, "metadata", problem, fix, None if saved else position)

    def report(self, observer: ProcessObserver, health: Health) -> None:
        """Report the halt to the log, to the observer and to the readiness probe."""
        name = str(self.partition)
        _log.error("%s", self)
        observer.halted(f"{name}: {self.cause}")
        health.note(name, f"{name} is halted: {self.cause}; {self.fix}")

    def withdraw(self, health: Health) -> None:
        """Remove the halt from the readiness probe."""
        health.note(str(self.partition), "")

    @property
    def opened(self) -> bool:
        """Whether the partition had a position. Without one, errors about where the client starts mean nothing."""
        return self.label in {"deleted", "truncated", "expired"}

    def repeats(self, known: LostPosition | None) -> bool:
        """Whether what is ``known`` of the partition, and was reported, says the same."""
        return known is not None and replace(known, cause=self.cause, fix=self.fix) == self

    def can_go_on(self, committed: Checkpoint | None, *, control_read: bool) -> bool:
        """Whether the partition can go on.

        Args:
            committed: its committed offset, which may have been moved, or may be read now.
            control_read: whether the control topic was read since the partition was assigned.
        """
        if self.label == "control":
            moved = control_read or committed is not None
        elif self.label == "metadata":
            moved = committed != self.committed
        else:
            moved = (_EXPIRED if committed is None else committed.offset) > self.offset
        if moved:
            _log.warning("%s-%d goes on: its commit has changed, or what it needs can be read", *self.partition)
        return moved
