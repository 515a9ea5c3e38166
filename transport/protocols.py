"""What transport hands to the layers above: narrow protocols and values, no client classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from topology.headers import HeaderList
from topology.progress import Checkpoint


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int


class Message(Protocol):
    """A fetched record, as the client gives it: every attribute is a call."""

    def topic(self) -> str:
        """Its topic."""
        ...

    def partition(self) -> int:
        """Its partition."""
        ...

    def offset(self) -> int:
        """Its offset."""
        ...

    def key(self) -> bytes | None:
        """Its raw key."""
        ...

    def value(self) -> bytes | None:
        """Its raw value; ``None`` is a tombstone."""
        ...

    def headers(self) -> HeaderList | None:
        """Its headers, ``None`` without any; ask :func:`transport.message_headers.headers_of` instead."""
        ...

    def set_headers(self, value: HeaderList) -> None:
        """Replace them, in this process only."""
        ...

    def __len__(self) -> int:
        """Bytes of its value."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Type and epoch ms."""
        ...


class Copy(NamedTuple):
    """A record to be written. ``partition`` ``None`` leaves the choice to the partitioner (outputs only)."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: HeaderList | None = None


class Due(NamedTuple):
    """When a write may become visible, by both clocks."""

    epoch_ms: int
    """Also the timestamp of its copies."""

    monotonic_s: float
    """The same time; what is waited for, since the wall clock may jump."""


class Written(NamedTuple):
    """A write that is done."""

    seconds: float
    """How long it took, without the time it was held back."""

    prepared_s: float = 0.0
    """How much of that could go by before it was due."""


class Group(Protocol):
    """What a writer needs of the consumer whose offsets it commits."""

    def group_metadata(self) -> object:
        """The membership, taken now: a commit with an outdated one is refused by the broker."""
        ...

    def commit(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Commit offsets with their metadata outside a transaction, and wait for it."""
        ...


class Listener(Protocol):
    """Told of every change of the assignment, on the polling thread."""

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """These are ours now. Returns where to start reading each."""
        ...

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """These go to somebody else; they are ours until this returns: finish and commit."""
        ...

    def lost(self, partitions: Iterable[Partition]) -> None:
        """These are somebody else's already: commit nothing."""
        ...


class Topics(Protocol):
    """What there is to write to."""

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """How many partitions a topic has, ``None`` if there is no such topic."""
        ...


class Source(Protocol):
    """What a worker or scheduler needs of its reader; contracts in :class:`transport.reader.Reader`."""

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Records that are there."""
        ...

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Fetch no more of these."""
        ...

    def resume(self, partitions: Iterable[Partition]) -> None:
        """The opposite."""
        ...

    def seek(self, partition: Partition, offset: int) -> None:
        """Read on from there."""
        ...

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """What is committed for each."""
        ...

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """First offset and one past the last."""
        ...

    def ahead(self, partition: Partition, next_offset: int) -> int:
        """About how many records there are from ``next_offset`` on."""
        ...

    def partition_counts(self) -> Mapping[str, int]:
        """Every topic of the cluster and how many partitions it has."""
        ...

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group, or change what is wanted from it."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Writer(Protocol):
    """Writes copies and commits offsets, both or neither as far as its mode can, in three steps.

    The consumer may be used by its own thread only: during a rebalance any other waits for it, for ever if it waits
    for the other. So the first and the last step belong to that thread, and only the one between may be another's.
    """

    def member(self) -> object:
        """The membership that the write is made with, taken just before; a commit with an outdated one is refused."""
        ...

    def write(
        self,
        copies: Sequence[Copy],
        checkpoints: Mapping[Partition, Checkpoint],
        due: Due | None = None,
        member: object = None,
    ) -> Written:
        """Write all copies; in a transaction the offsets, too, and commit it.

        Offsets are the next ones to be read: last finished + 1. Returns only when everything is
        confirmed by the broker. With ``due`` no reader sees any of the copies before that time; whatever can
        be done without that is done before.

        Raises:
            WriteRefusedError: the broker refuses some of the copies for good; nothing was committed.
            WriteUndoneError: nothing of it may be taken as done; read the committed offsets back and
                go on from there.
            WriterFencedError: another process has taken this one's identity; stop.
        """
        ...

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Commit the offsets after a write, unless that is done.

        Raises:
            WriteUndoneError: as of :meth:`write`.
        """
        ...

    def close(self) -> None:
        """Release the client; nothing is in flight between two writes."""
        ...


class BackgroundWriter(Protocol):
    """A writer that works while its owner goes on; contracts in :class:`transport.write_thread.WriteThread`."""

    busy: bool
    """Whether a write has begun whose end :meth:`ended` has not told yet."""

    def begin(
        self, copies: Sequence[Copy], checkpoints: Mapping[Partition, Checkpoint], due: Due | None = None
    ) -> None:
        """Begin a write."""
        ...

    def ended(self, within_s: float | None = 0.0) -> Written | None:
        """Tell how it ended, ``None`` if it has not."""
        ...

    def close(self) -> None:
        """Release the client."""
        ...
