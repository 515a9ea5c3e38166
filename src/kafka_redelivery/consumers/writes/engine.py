"""One write at a time: how large it is, and that it ends as one of four values, which its owner matches."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import (
    MembershipOutdatedError,
    OffsetsForbiddenError,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.protocols import BackgroundWriter, Partition, ProducerRecord, ReleaseTime

_log = logging.getLogger(__name__)

_FAST_S = 5.0
"""A write that takes longer may time out if it is twice as large."""

GIVE_UP_AFTER_S = 60.0
"""Longest time between the first and the last aborted write of a series."""

_SERIES_ENDS_AFTER_S = 30.0
"""After so long without a write, the next aborted one begins a new series. The time that writes take does not count."""

_ENDURED_SERIES_ENDS_AFTER_S = 120.0
"""The same for a process that endures: longer than a write that times out."""

_BACKOFF = Backoff(0.2, 5.0)


class WriteLimits:
    """The number of records in a write, and their size with their outputs.

    A write is smaller after an aborted one, and larger again after those that were fast.
    """

    def __init__(self, max_records: int, max_bytes: int = 2**62) -> None:
        """Start with the largest writes.

        Args:
            max_records: number of records at most.
            max_bytes: size of the records and their outputs at most, or a little more.
        """
        self._max_records, self._max_bytes = max_records, max_bytes
        self.records, self.bytes = max_records, max_bytes

    @property
    def reduced(self) -> bool:
        """Whether writes have to be smaller at present."""
        return (self.records, self.bytes) != (self._max_records, self._max_bytes)

    def full(self, records: int, size: int) -> bool:
        """Whether a write of this size may not become larger."""
        return records >= self.records or size >= self.bytes

    def aborted(self, records: int, size: int | None = None) -> None:
        """Make the next write half as large as this one.

        Args:
            records: number of its records.
            size: size of these records and their outputs; ``None`` = not limited.
        """
        self.records = max(1, min(self.records, records) // 2)
        if size is not None:
            self.bytes = max(1, min(self.bytes, size) // 2)

    def committed(self, seconds: float) -> None:
        """Double the limits if the write was fast."""
        if seconds < _FAST_S:
            self.records = min(self._max_records, 2 * self.records)
            self.bytes = min(self._max_bytes, 2 * self.bytes)


class AbortDeadline:
    """Measures how long writes have been aborted without one that was committed.

    A process whose writes are aborted again and again pauses between them, or gives up after a time.
    """

    def __init__(self, *, endures: bool = False) -> None:
        """Begin without an aborted write. ``endures``: whether the process never gives up."""
        self.endures = endures
        """Whether the process never gives up."""

        self._ends_after_s = _ENDURED_SERIES_ENDS_AFTER_S if endures else _SERIES_ENDS_AFTER_S
        self._first_s: float | None = None
        self._last_s = self._until_s = 0.0
        self._begun_s: float | None = None
        """When the first write after the last aborted one began."""

        self._backoff = _BACKOFF
        self._cause = ""

    @property
    def pause_left_s(self) -> float:
        """Seconds until the next write may begin. Records are handled meanwhile, up to a full batch."""
        return max(0.0, self._until_s - monotonic_s()) if self._until_s else 0.0

    @property
    def failing_s(self) -> float:
        """Seconds since the first write of the series was aborted; 0 if there is none."""
        return 0.0 if self._first_s is None or self._has_ended() else monotonic_s() - self._first_s

    @property
    def problem(self) -> str | None:
        """What to report while the series is longer than :data:`GIVE_UP_AFTER_S`."""
        if self._first_s is None or self._last_s - self._first_s <= GIVE_UP_AFTER_S or self._has_ended():
            return None
        return f"every write of the last {self._last_s - self._first_s:.0f} s was aborted, because: {self._cause}"

    def begins(self) -> None:
        """Note that a write begins. However long it takes, that does not end the series."""
        if self._has_ended():
            self.succeeded()
        self._begun_s = monotonic_s()

    def succeeded(self) -> None:
        """End the series: a write was committed."""
        self._first_s = self._begun_s = None
        self._until_s, self._backoff = 0.0, _BACKOFF

    def pause(self) -> None:
        """Let the next write wait, unless this is the first aborted write: each time twice as long."""
        now_s = monotonic_s()
        self._until_s, self._backoff = now_s + self._backoff.pause_s, self._backoff.failed(now_s)

    def aborted(self, cause: str) -> None:
        """Add an aborted write to the series.

        Raises:
            HaltedError: the process does not endure, and the series is longer than :data:`GIVE_UP_AFTER_S`.
        """
        now = monotonic_s()
        if self._first_s is None or self._has_ended():
            self.succeeded()
            self._first_s = now
        self._last_s, self._begun_s, self._cause = now, None, cause
        if not self.endures and now - self._first_s > GIVE_UP_AFTER_S:
            raise HaltedError(
                f"every write of the last {GIVE_UP_AFTER_S:.0f} s was aborted, the last one because: {cause}"
            )

    def _has_ended(self) -> bool:
        until_s = monotonic_s() if self._begun_s is None else self._begun_s
        return until_s - self._last_s > self._ends_after_s


class Write(Protocol):
    """What is written together: produced records and committed offsets."""

    produced: list[ProducerRecord]
    checkpoints: Mapping[Partition, Checkpoint]

    @property
    def before(self) -> Mapping[Partition, Checkpoint | None]:
        """What was committed before, for the partitions that have not left this process."""

    @property
    def produces(self) -> bool:
        """Whether it produces records for consumed ones of these partitions."""

    @property
    def starting(self) -> Collection[Partition]:
        """The partitions whose first offset is in the write."""

    def judged(self, error: WriteRefusedError) -> WriteRefusedError:
        """Return a refusal of this write with the causes as they are for its records."""


class Offsets(Protocol):
    """The part of a :class:`Reader` that knows what is committed."""

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """See :meth:`Reader.committed`."""

    def forbid(self, topics: Iterable[str]) -> None:
        """See :meth:`Reader.forbid`."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The records are written and the offsets committed."""

    seconds: float
    prepared_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Repeat:
    """The offsets are not committed, nor are those of another writer: the same outcomes may be written again."""

    error: WriteAbortedError


@dataclass(frozen=True, slots=True)
class Rewind:
    """Another writer has committed offsets, or nothing shows what became of the write: start again from the offsets."""

    error: WriteAbortedError


@dataclass(frozen=True, slots=True)
class Refused:
    """Kafka refuses records of the write, and nothing is committed. Some partitions may have to halt."""

    error: WriteRefusedError


End: TypeAlias = Committed | Repeat | Rewind | Refused

_Write = TypeVar("_Write", bound=Write)


class WriteEngine(Generic[_Write]):
    """Makes the writes of a process. Owned by its polling thread."""

    def __init__(
        self, writer: BackgroundWriter, offsets: Offsets, observer: ProcessObserver, deadline: AbortDeadline
    ) -> None:
        """Prepare.

        Args:
            writer: writes on a thread of its own.
            offsets: shows what became of an aborted write, and learns which topics may not be read.
            observer: receives every aborted write.
            deadline: measures how long writes have been aborted.
        """
        self._writer = writer
        self._offsets = offsets
        self._observer = observer
        self.deadline = deadline
        """How long writes have been aborted, and until when none may begin."""

        self._began_s = 0.0
        self.writing: _Write | None = None
        """The write that has begun, until its end is known."""

    @property
    def seconds(self) -> float:
        """Seconds since the last write began."""
        return monotonic_s() - self._began_s

    def begin(self, write: _Write, release_time: ReleaseTime | None = None) -> None:
        """Begin a write. No other may be in progress."""
        self._began_s = monotonic_s()
        self.deadline.begins()
        self._writer.begin(write.produced, write.checkpoints, release_time)
        self.writing = write

    def end(self, within_s: float | None = 0.0, *, repeats: bool = True) -> End | None:
        """Wait for the end of the write in progress.

        Args:
            within_s: longest time to wait, in seconds; ``None`` = no limit.
            repeats: whether the owner can write the same outcomes again.

        Returns:
            ``None`` if no write is in progress, or if it has not ended.

        Raises:
            TransportError: this process cannot go on.
            HaltedError: writes have been aborted for too long.
        """
        write = self.writing
        if write is None:
            return None
        try:
            written = self._writer.result(within_s)
        except WriteRefusedError as refusal:
            error = write.judged(refusal)
            self._report_abort(write, error, counts=not (error.outside and self.deadline.endures))
            return Refused(error)
        except WriteAbortedError as aborted:
            return self._settle(write, aborted, repeats=repeats)
        finally:
            if not self._writer.busy:
                self.writing = None
        if written is None:
            return None
        self.deadline.succeeded()
        return Committed(written.seconds, written.prepared_s)

    def _settle(self, write: _Write, error: WriteAbortedError, *, repeats: bool) -> End:
        """Find out what became of an aborted write: the committed offsets show it."""
        if error.fenced:
            self._observer.fenced()
        self._report_abort(write, error)
        self.deadline.pause()
        self._forbid(error, write.starting)
        if not repeats or (self.deadline.endures and isinstance(error, OffsetsForbiddenError)):
            return Rewind(error)  # without the right a repetition would be aborted, too, and the other topics wait
        end = classify(error, write, self._offsets.committed(write.before), self.seconds)
        if isinstance(end, Committed):
            self.deadline.succeeded()
        return end

    def commit_rest(self, checkpoints: Mapping[Partition, Checkpoint], write: _Write) -> Mapping[Partition, Checkpoint]:
        """Commit offsets of a refused write whose records are all written, because there is no transaction.

        Returns:
            the committed offsets.
        """
        try:
            if checkpoints:
                self._writer.finish(checkpoints)
        except WriteAbortedError as error:
            _log.warning("the offsets of the other partitions cannot be committed: %s", error)
            self._forbid(error, [each for each in write.starting if each in checkpoints])
            return {}
        return checkpoints

    def report(self, health: Health) -> None:
        """Report whether writes have been aborted for a long time."""
        health.waiting("writes", self.deadline.problem)
        self._observer.writes_failing(self.deadline.failing_s)

    def _forbid(self, error: WriteAbortedError, starting: Collection[Partition]) -> None:
        """Note the topics whose offsets were not committed because the user may not read them.

        If the brokers do not report rights, these are the topics that would have had the first offset of a partition:
        Kafka has accepted none of it yet.
        """
        if isinstance(error, OffsetsForbiddenError):
            self._offsets.forbid(error.unreadable or {partition.topic for partition in starting})

    def _report_abort(self, write: _Write, error: Exception, *, counts: bool = True) -> None:
        """Report an aborted write; ``counts``: as one of a series, because the cause is not outside its records."""
        cause = str(error)
        if counts:
            self.deadline.aborted(cause)
        _log.warning("a write of %d records was aborted: %s", len(write.produced), cause)
        self._observer.write_aborted(cause)


def classify(
    error: WriteAbortedError, write: Write, committed: Mapping[Partition, Checkpoint | None], seconds: float
) -> Committed | Repeat | Rewind:
    """Compare the committed offsets with those before the write and with those of the write.

    Args:
        error: what the write ended with.
        write: the write.
        committed: what is committed now for the partitions that are still owned, read when no transaction that changes
            it was open.
        seconds: how long the write has taken, if it was committed.
    """
    unchanged = written = False
    before = write.before
    for partition, now in committed.items():
        point = write.checkpoints[partition]
        if now == before[partition]:
            unchanged = unchanged or now != point  # if they are the same, they show nothing
        elif now == point and not isinstance(error, MembershipOutdatedError):
            written = True
        else:
            return Rewind(error)  # of another writer; Kafka refuses those of an outdated member
    if written and not unchanged:
        return Committed(seconds)
    if written:
        # Without a transaction, a part of the offsets can be committed. To commit them again does no harm.
        return Rewind(error) if error.unconfirmed is None else Repeat(error)
    if not unchanged and write.produces:
        return Rewind(error)  # nothing shows whether the records are written
    return Repeat(error)
