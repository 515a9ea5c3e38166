"""The contract between transport and the layers above: protocols and values, no classes of the Kafka client.

Offsets mean what they mean in Kafka. The *next offset* of a partition is the one that is fetched next. A *committed
offset* is the next offset after a restart: one past the last finished record. An *end offset* is one past the last
record. Transaction markers take up offsets too, so offsets have gaps and a difference of offsets only estimates a
number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.topology.wire.progress import Checkpoint


class Partition(NamedTuple):
    """A topic partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        """Return ``topic-number``, as Kafka's own tools write it."""
        return f"{self.topic}-{self.number}"


class Message(Protocol):
    """A fetched record. The methods are those of the client's own class, so records are passed on unconverted."""

    def topic(self) -> str:
        """Return the topic."""

    def partition(self) -> int:
        """Return the number of the partition."""

    def offset(self) -> int:
        """Return the offset."""

    def key(self) -> bytes | None:
        """Return the raw key."""

    def value(self) -> bytes | None:
        """Return the raw value; ``None`` is a tombstone."""

    def headers(self) -> HeaderList | None:
        """Return the headers, ``None`` if there are none. Call :func:`headers_of` instead, which is safe."""

    def set_headers(self, value: HeaderList) -> None:
        """Replace the headers of this object."""

    def __len__(self) -> int:
        """Return the size of the value in bytes."""

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp's type and its value (epoch ms)."""


class ProducerRecord(NamedTuple):
    """A record to produce. With ``partition`` ``None`` the partitioner chooses; only a handler's outputs do that."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: HeaderList | None = None


class ReleaseTime(NamedTuple):
    """The earliest time at which consumers may see the records of a write, by two clocks."""

    epoch_ms: int
    """Wall clock. It also becomes the timestamp of the records."""

    monotonic_s: float
    """The same time by the monotonic clock. The writer waits by this one, because the wall clock may jump."""


class WriteResult(NamedTuple):
    """The duration of a successful write."""

    seconds: float
    """Duration without the time spent waiting for the release time."""

    prepared_s: float = 0.0
    """The part of the duration that can pass before the release time."""


class GroupMember(Protocol):
    """The consumer whose offsets a writer commits."""

    def group_metadata(self) -> object:
        """Return the current group metadata (member and generation). The broker refuses commits with outdated ones."""

    def commit(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Commit offsets and their metadata outside a transaction; return when the broker has confirmed them."""


class RebalanceListener(Protocol):
    """Receives every change of the assignment, on the thread that calls :meth:`Reader.fetch`."""

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """Take over partitions, in addition to those owned already.

        Returns:
            the offset at which to start each of them.
        """

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """Give partitions up. This process owns them until the method returns: it can still finish and commit."""

    def lost(self, partitions: Iterable[Partition]) -> None:
        """Drop partitions that another member may own already. Offsets of them must not be committed any more."""


class TopicMetadata(Protocol):
    """The topics that exist."""

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """Return the number of partitions of a topic, ``None`` if it does not exist.

        Args:
            topic: its name.
            wanted: the partition that the caller needs; a cached number that is too low for it is refreshed.
        """


class Reader(Protocol):
    """A group consumer with explicit positions. Not thread-safe.

    * The listener chooses the offset at which each assigned partition starts; ``auto.offset.reset`` never does.
    * :meth:`fetch` returns the records of a partition in order of their offsets, each once, starting at that offset or
      at the one of the latest :meth:`seek`.
    * Only committed transactions are read. Offsets of aborted records and of markers are skipped.
    * Fetching does not commit. A :class:`Writer` commits, or :meth:`GroupMember.commit`.
    * Pauses end with the assignment: a partition that is assigned again is fetched.
    """

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return up to ``maximum`` records: wait for the first, then take those that are there already.

        Rebalances happen inside this call: it calls the listener.

        Raises:
            ReaderError: the consumer cannot go on.
            TopicForbiddenError: the user may not read a topic; the other topics can be fetched further. A reader that
                waits does not raise it, but lists the topic in :attr:`forbidden`.
            PartitionUnfetchableError: Kafka returns an error for a partition, or damaged records; the others can be
                fetched further. A reader that waits lists the partition in :attr:`unfetchable` instead.
            PositionDeletedError: the position of a partition does not exist any more; the other partitions can be
                fetched further.
        """

    @property
    def forbidden(self) -> Mapping[str, str]:
        """The topics that may not be read at present, each with what is wrong and how to fix it."""

    def forbid(self, topics: Iterable[str]) -> None:
        """Note topics that may not be read, as a commit has shown: a reader that waits lists them as forbidden."""

    @property
    def unfetchable(self) -> Mapping[Partition, str]:
        """The partitions that cannot be fetched at present, each with what is wrong and how to fix it."""

    @property
    def paused(self) -> AbstractSet[Partition]:
        """The assigned partitions that are not fetched: those paused, and those without a start offset."""
        ...

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Stop fetching these partitions. Their positions stay; they remain assigned."""

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Continue fetching paused partitions at their positions."""

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position of an assigned partition: the next record fetched has this offset or a higher one."""

    def take_reached_ends(self) -> Mapping[Partition, int]:
        """Return the partitions whose end :meth:`fetch` has reached since the last call, each with its end offset.

        All committed records below that offset have been returned. An open transaction ends before its first record.
        """

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """Ask the broker for committed offsets and their metadata; ``None`` for a partition without a commit.

        Waits for pending offset commits of open transactions. The reader of a running worker leaves out the partitions
        of topics that may not be described.

        Raises:
            ReaderError: the broker refuses, or does not answer.
        """

    def committed_now(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """The same in a single short request; empty if the broker does not answer it."""

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Ask the broker for the log start offset and the end offset of a partition.

        Raises:
            ReaderError: the broker refuses, or does not answer.
        """

    def bounds_now(self, partition: Partition) -> tuple[int, int] | None:
        """The same in a short request; ``None`` if it is not answered: mostly because the partition has no leader."""

    def end_at(self, partition: Partition, time_ms: int, end: int) -> int | None:
        """Return the offset of the first record with this timestamp or a later one, or ``end``; ``None`` as before.

        Ask for the ``end`` before, so that a record counts that is written meanwhile.
        """

    def lags(self, next_offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Estimate the number of records from the next offsets of partitions on; exactly 0 at the end.

        Does not wait for the broker. A report calls it once, with all its partitions.
        """

    def partition_counts(self, topics: Iterable[str] | None = None) -> Mapping[str, int]:
        """Ask the broker for topics and their numbers of partitions; those that do not exist are missing.

        Args:
            topics: the topics, of which there should be few. ``None``: all of the cluster, which may be many.

        Raises:
            ReaderError: the broker refuses, or does not answer.
        """

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """Join the group, or change the subscription. The assignment arrives in a later :meth:`fetch`."""

    def close(self) -> None:
        """Give the assignment back, which calls the listener, and leave the group unless membership is static."""


class Writer(Protocol):
    """Produces records and commits offsets: in one transaction (exactly once), or one after the other (at least once).

    A write has three steps: :meth:`group_metadata`, :meth:`write`, :meth:`finish`. The first and the last use the
    consumer, so they belong to the thread that owns it: another thread would wait for a rebalance, and the two could
    wait for each other for ever. Only :meth:`write` may run on another thread.
    """

    def group_metadata(self) -> object:
        """Return the group metadata for the next write. Take it just before the write, or it may be outdated."""

    def write(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
        group_metadata: object = None,
    ) -> WriteResult:
        """Produce all records; a transactional writer also commits the offsets and the transaction.

        Returns when the broker has confirmed everything.

        Args:
            records: what to produce; may be empty.
            checkpoints: the offsets to commit, one past the last finished record each, and their metadata.
            release_time: consumers see none of the records before this time. Whatever can be done earlier is.
            group_metadata: the result of :meth:`group_metadata`.

        Raises:
            WriteRefusedError: the broker refuses some of the records permanently. Nothing was committed.
            WriteAbortedError: read the committed offsets again; they show whether to continue from them or to repeat
                the write.
            WriterFencedError: another process has taken over the identity of this one, and this writer cannot go on
                with another. Stop.
            TransportError: the outcome is unknown, and this writer does not wait until Kafka answers. Stop.
        """

    def trial(self, record: ProducerRecord, pause_s: float) -> WriteResult:
        """Find out whether the broker accepts a record that it has refused before, without consumers seeing it.

        A writer without transactions really writes the record.

        Args:
            record: the record.
            pause_s: the pause since the last trial of it. After a longer one this waits longer for the answer.

        Raises:
            WriteRefusedError: the broker still refuses it.
            WriteAbortedError: it is not known.
            WriterFencedError, TransportError: as :meth:`write`.
        """

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Commit the offsets of a write, unless its transaction has committed them.

        Raises:
            WriteAbortedError: the offsets are not committed; the records are written.
        """

    def close(self) -> None:
        """Release the client. No write may be in progress."""


class BackgroundWriter(Protocol):
    """A writer that writes on a thread of its own, one write at a time. :class:`WriteThread` implements it."""

    busy: bool
    """Whether a write has begun whose end :meth:`result` has not returned or raised yet."""

    began_s: float | None
    """When that write began (monotonic); ``None`` if there is none."""

    def begin(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
    ) -> None:
        """Begin a write; the arguments are those of :meth:`Writer.write`. No other may be in progress."""

    def begin_trial(self, record: ProducerRecord, pause_s: float) -> None:
        """Begin :meth:`Writer.trial`. No write may be in progress; :meth:`result` returns or raises its end."""

    def result(self, within_s: float | None = 0.0) -> WriteResult | None:
        """Wait up to ``within_s`` seconds (``None``: without limit) for the end of the write.

        Returns:
            ``None`` if the write is still in progress.

        Raises:
            WriteRefusedError, WriteAbortedError, WriterFencedError: as :meth:`Writer.write` and :meth:`Writer.finish`.
        """

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Commit a part of the offsets of a write that has raised an error; see :meth:`Writer.finish`."""

    def close(self) -> None:
        """Release the client."""
