"""What became of a write that was aborted, or whose outcome is unknown: the committed offsets show it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import MembershipOutdatedError, OffsetsForbiddenError, WriteAbortedError
from kafka_redelivery.transport.protocols import Partition


class Settlement(Enum):
    """What the committed offsets say about a write."""

    COMMITTED = auto()
    UNCHANGED = auto()
    """Its offsets are not committed, nor are those of another writer. It may be repeated."""

    UNKNOWN = auto()
    """Another writer has committed offsets, or these offsets show nothing. Start again from them."""


@dataclass(frozen=True, slots=True)
class AbortedWrite:
    """A write that ended with a :class:`WriteAbortedError`."""

    batch: Batch
    checkpoints: Mapping[Partition, Checkpoint]
    """The offsets that it would have committed."""

    error: WriteAbortedError

    @property
    def owned(self) -> list[Partition]:
        """The partitions of the write that have not left this worker."""
        return [partition for partition in self.checkpoints if not self.batch.touched[partition].closed]

    @property
    def unreadable(self) -> Collection[str]:
        """The topics whose offsets may not be committed; see :func:`unreadable_topics`."""
        return unreadable_topics(self.error, starting(self.batch, self.checkpoints))

    def settle(self, committed: Mapping[Partition, Checkpoint | None]) -> Settlement:
        """Compare committed offsets with those before the write and with those of the write.

        Args:
            committed: what is committed now for the :attr:`owned` partitions, read when no transaction that changes it
                was open.
        """
        if isinstance(self.error, OffsetsForbiddenError):
            return Settlement.UNKNOWN  # repeated, it would be aborted again, and the partitions of other topics wait
        found = set()
        for partition, now in committed.items():
            before, written = self.batch.touched[partition].committed, self.checkpoints[partition]
            if now == before != written:
                found.add(Settlement.UNCHANGED)
            elif now == written != before:
                if isinstance(self.error, MembershipOutdatedError):
                    return Settlement.UNKNOWN  # Kafka has refused it, so the new owner has committed the same offset
                found.add(Settlement.COMMITTED)
            elif now != before:
                return Settlement.UNKNOWN
        if len(found) == 1:
            return found.pop()
        if found:
            # Without a transaction, a part of the offsets can be committed. To commit them again does no harm.
            return Settlement.UNKNOWN if self.error.unconfirmed is None else Settlement.UNCHANGED
        # The offsets would not have changed, so they do not show whether the records are written.
        owned = any(not each.assigned.closed for each in self.batch.outcomes)
        return Settlement.UNKNOWN if owned and self.batch.produced else Settlement.UNCHANGED


def unreadable_topics(error: WriteAbortedError, first: Iterable[Partition]) -> Collection[str]:
    """Return the topics whose offsets were not committed because the user may not read them.

    If the brokers do not report rights, the error names none. Then those topics count as such that would have had the
    first offset of a partition: Kafka has accepted none of it yet.

    Args:
        error: what the write, or the commit, ended with.
        first: the partitions of the write without a committed offset.
    """
    if not isinstance(error, OffsetsForbiddenError):
        return ()
    return error.unreadable or {partition.topic for partition in first}


def starting(batch: Batch, partitions: Iterable[Partition]) -> list[Partition]:
    """Return those of the partitions of a batch that had no committed offset when it was written."""
    return [partition for partition in partitions if batch.touched[partition].committed is None]
