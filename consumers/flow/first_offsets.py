"""Where a partition without a committed offset starts. Its member commits that offset with its next write."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from kafka_redelivery.consumers.flow.lost_position import LostPosition
from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import BOUND_LEVEL
from kafka_redelivery.transport.protocols import Partition, Reader

_log = logging.getLogger(__name__)

KEEP_EVERY_S = 6 * 3600.0
"""How often the offset of an idle partition is committed again. Kafka deletes the offsets of a group without members
that are older than ``offsets.retention.minutes`` (7 days by default)."""


class Control(Protocol):
    """The control topic; see :class:`ControlTopic`."""

    @property
    def state(self) -> ControlState:
        """What is known of it."""
        ...

    def read(self) -> ControlState:
        """Read it to its end."""
        ...

    def note_first_offset(self, partition: Partition, offset: int) -> None:
        """Note that the group has committed an offset in a partition."""
        ...

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Read it to its end, and drop the saved positions of partitions that have a committed offset."""
        ...

    def problem(self) -> str | None:
        """Return why what is known may be older than the last :meth:`begin`; ``None`` = it is not. Never waits."""
        ...

    def save(self, positions: Mapping[Partition, Checkpoint]) -> None:
        """Save the last committed positions of partitions that this process gives up because it stops."""
        ...


class NoControl:
    """A control topic that does not exist."""

    state = ControlState()

    def read(self) -> ControlState:
        """Return that nothing is known."""
        return self.state

    def note_first_offset(self, partition: Partition, offset: int) -> None:
        """Do nothing."""

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Do nothing."""

    def problem(self) -> str | None:
        """Return ``None``."""

    def save(self, positions: Mapping[Partition, Checkpoint]) -> None:
        """Do nothing."""


class FirstOffsets:
    """Chooses first offsets for one process. Only its polling thread uses it."""

    def __init__(self, reader: Reader, source_start: str = "earliest", control: Control | None = None) -> None:
        """Start without partitions.

        Args:
            reader: returns the bounds of partitions and committed offsets.
            source_start: where a source partition starts that is as old as the group: ``earliest`` or ``latest``.
            control: what the group knows of its partitions.
        """
        self._reader = reader
        self._from_start = source_start == "earliest"
        self._control = NoControl() if control is None else control
        self._ends: dict[Partition, int] = {}
        """The start offset of each partition that starts at its end, for the case that its first commit is aborted."""

        self.restored: set[Partition] = set()
        """Partitions that go on at a saved position, which is to be committed."""

        self.unknown: dict[Partition, str] = {}
        """Partitions without a committed offset whose start is unknown, because the control topic cannot be read."""

    def positions(
        self, partitions: Iterable[Partition], owned: Container[Partition] = ()
    ) -> dict[Partition, Checkpoint | None]:
        """Return the committed offsets; where one has expired, the position that its last owner saved when it stopped.

        While the control topic cannot be read, partitions with a committed offset need not wait for it: what was saved
        of them is dropped later, by :meth:`note_first_offsets`. The others are in :attr:`unknown`.

        Args:
            partitions: the partitions.
            owned: those that this process owns already, and starts again after an aborted write.

        Raises:
            TransportError: Kafka does not answer, or refuses.
        """
        found = dict(self._reader.committed(partitions))
        new = [partition for partition in found if partition not in owned]
        if new:
            self._control.begin([partition for partition in new if found[partition] is not None])
        problem = self._control.problem()
        saved = self._control.state.saved
        for partition, committed in found.items():
            self.restored.discard(partition)
            self.unknown.pop(partition, None)
            if committed is None and problem is not None:
                self.unknown[partition] = problem
            elif committed is None and partition in saved:
                last = found[partition] = saved[partition]
                self.restored.add(partition)
                _log.info("%s-%d has no committed offset and goes on at the saved one, %d", *partition, last.offset)
        return found

    def control_problem(self) -> str | None:
        """Return why the control topic was not read since the last partitions were assigned; ``None`` = it was."""
        return self._control.problem()

    def save(self, partitions: Iterable[Partition]) -> None:
        """Save the committed positions of partitions that this process gives up because it stops."""
        if not self._control.state.exists:
            return
        found = self._reader.committed_now(partitions)
        self._control.save({partition: committed for partition, committed in found.items() if committed is not None})

    @property
    def bound(self) -> bool:
        """Whether the metadata of commits names the offset, because all members can read that."""
        return self._control.state.level >= BOUND_LEVEL

    def restore(
        self, partition: Partition, committed: Checkpoint, author: int | None = None
    ) -> Progress | LostPosition:
        """Return the progress that a position of a partition describes, or why it halts: its metadata is unreadable."""
        try:
            progress = Progress.restore(committed.offset, committed.metadata, author)
        except ProgressError as error:
            return LostPosition.metadata(partition, committed, str(error), saved=partition in self.restored)
        progress.bound = self.bound
        if progress.moved:
            _log.warning(
                "%s-%d: the metadata of the committed offset %d belongs to another offset: a mirror or another tool "
                "has moved it; records above it that are finished are handled again",
                *partition,
                committed.offset,
            )
        return progress

    def source(self, partition: Partition) -> tuple[int, bool]:
        """Return the first offset of a source partition, and whether no record may be fetched before its commit.

        A partition that was added after the group began starts at its log start. One that starts at its end is fetched
        after that commit: a successor would start at the end that the log has then.
        """
        if partition in self._ends:
            return self._ends[partition], True
        low, high = self._reader.bounds(partition)
        if self._from_start or self._control.read().was_added(*partition):
            return _logged(partition, low), False
        self._ends[partition] = high
        return _logged(partition, high), True

    def internal(self, partition: Partition) -> int:
        """Return the log start of a partition of a tier or ready topic. Call :meth:`expired` before."""
        low, _ = self._reader.bounds(partition)
        return _logged(partition, low)

    def expired(self, partition: Partition, *, internal: bool = False) -> tuple[int, int] | None:
        """Return the log start of a partition whose committed offset has expired, and how many records are above it.

        ``None`` if the group has never had an offset there, or nothing is left that could be repeated.

        Args:
            partition: the partition.
            internal: whether it belongs to a tier or ready topic. Without a control topic the group may have had an
                offset there: any start could lose or repeat the records that wait.
        """
        state = self._control.read()
        if state.is_new(*partition) or not (state.exists or internal):
            return None
        low, high = self._reader.bounds(partition)
        return (low, high - low) if low < high else None

    def committed(self, partition: Partition) -> None:
        """Drop what is known of a partition that has a committed offset."""
        self._ends.pop(partition, None)

    def note_first_offsets(self, committed: Mapping[Partition, int]) -> None:
        """Note in the control topic which partitions have their first committed offset, so that its loss is noticed.

        Their saved positions are dropped by that. Called about once a second, it also lets the topic be read again.

        Args:
            committed: the partitions that have a committed offset, each with it or a little more.
        """
        self._control.problem()
        state = self._control.state
        if not state.exists:
            return
        for partition, offset in committed.items():
            if state.is_new(*partition) or partition in state.saved:
                self._control.note_first_offset(partition, offset)
                self.restored.discard(partition)


def _logged(partition: Partition, offset: int) -> int:
    _log.info("%s-%d has no committed offset and starts at offset %d", partition.topic, partition.number, offset)
    return offset
