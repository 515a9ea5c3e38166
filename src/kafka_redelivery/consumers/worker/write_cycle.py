"""The cycle of writes: begin, wait for the end, and what follows an aborted write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.delivery_notes import DeliveryNotes
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import Committed, Refused, Rewind
from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.transport.protocols import Partition, Reader


@dataclass(kw_only=True, eq=False)
class WriteCycle:
    """Begins writes, and keeps or drops the work of an aborted one. Only the polling thread uses it.

    After an aborted write the committed offsets decide. If they are unchanged, its outcomes are written again, except
    for those of partitions that have left this worker. Otherwise all partitions start again at these offsets.
    """

    reader: Reader
    committer: Committer
    assignment: Assignment
    notes: DeliveryNotes | None
    """``None`` if no handler persists deliveries."""

    unacknowledged: Unacknowledged | None
    idle: Callable[[], bool]
    """Whether no record is in a slot and none could start."""

    leaving: frozenset[Partition] = frozenset()
    """Partitions that are being revoked. They are not opened again."""

    def begin(self) -> None:
        """Begin to write the batch. No write may be in progress."""
        with self.discard_on_error():
            noted: list[AssignedPartition] = []
            if self.notes is not None and self.committer.batch.halts:  # nothing more is handed out
                self.notes.withdraw(self.assignment.all())
            elif self.notes is not None:
                noted = self.notes.prepare(idle=self.idle())
            try:
                self.committer.begin([*self.assignment.dirty(), *noted])
            except ProgressError:
                # Progress that an aborted write has set back may need more metadata than a commit may have.
                if not self.committer.repeating:
                    raise
                self.rewind()

    def await_end(self, timeout_s: float | None = 0.0) -> bool:
        """Wait up to ``timeout_s`` for the write in progress and act on its end; ``None`` waits until it ends.

        Returns:
            whether the write was not aborted.
        """
        with self.discard_on_error():
            end = self.committer.end(timeout_s, repeats=self.notes is None or not self.notes.isolating)
            match end:
                case Committed() if self.notes is not None:
                    self.notes.confirm()
                case Rewind() | Refused():
                    self.rewind()
        return end is None or isinstance(end, Committed)

    def flush(self, within_s: float) -> None:
        """Write all outcomes and wait for it. Several writes are begun only within a time, and until one is aborted."""
        end_s = monotonic_s() + within_s
        self.await_end(None)
        if self.unacknowledged is not None:
            self.collect_dispositions(self.unacknowledged)
        while True:
            self.begin()
            if not self.await_end(None) or not self.committer.batch.size or monotonic_s() >= end_s:
                return

    def flush_leaving(self, leaving: list[AssignedPartition], within_s: float) -> None:
        """Write all outcomes, and withdraw the delivery notes of these partitions even if that write aborts."""
        if self.notes is None:
            self.flush(within_s)
            return
        self.notes.withdraw(leaving)
        self.flush(within_s)
        if not set(leaving).isdisjoint(self.assignment.dirty()):
            self.rewind()
        aborted = [assigned.partition for assigned in leaving if assigned.closed]
        if aborted:
            self.notes.withdraw(self.assignment.open(aborted))
            self.flush(within_s)

    def collect_dispositions(self, unacknowledged: Unacknowledged) -> None:
        """Add the outcomes of records that were acknowledged, recovered or timed out after their handler returned."""
        with self.discard_on_error():
            unacknowledged.add_dispositions(self.committer.batch)

    def rewind(self) -> None:
        """Start again from the committed offsets. No write may be in progress."""
        self.committer.discard()
        for assigned in self.assignment.all():
            if self.unacknowledged is not None:
                self.unacknowledged.close(assigned)
        for assigned in self.assignment.reopen(leaving=self.leaving):
            self.reader.seek(assigned.partition, assigned.progress.next_offset)

    def close(self, leaving: Iterable[Partition]) -> None:
        """Drop all state of partitions, and their outcomes."""
        leaving = list(leaving)
        for assigned in self.assignment.find(leaving):
            if self.unacknowledged is not None:
                self.unacknowledged.close(assigned)
            self.committer.start_anew(assigned)
        for partition in leaving:
            self.assignment.close(partition)
        self.committer.drop_closed()

    @contextmanager
    def discard_on_error(self) -> Iterator[None]:
        """Drop the batch and all partitions if the block raises: progress and batch may no longer agree."""
        try:
            yield
        except BaseException:
            self.committer.discard()
            self.close([assigned.partition for assigned in self.assignment.all()])
            raise
