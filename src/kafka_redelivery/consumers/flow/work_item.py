"""Work items, which travel between the polling thread and the handler slots, and the queue they come back in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import NamedTuple

from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.session import DeliveredRecord
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.transport.clients.bounded_waits import get_within
from kafka_redelivery.transport.protocols import Message, ProducerRecord


class MetOutage(NamedTuple):
    """A call that found something away that its handler depends on."""

    failure: Failure
    began_s: float
    """When the call began (monotonic)."""

    lineages: Sequence[Lineage] = ()
    """The lineage of the record, if the item has one for each."""


@dataclass(slots=True, eq=False)
class WorkItem:
    """Records of one lane that one slot handles one after the other.

    The slot stores the outcome of each record and increments ``position``. It may return the item before the last
    record, because ``stop`` is set or because its time slice is over. The remaining records go back to the lane.

    The polling thread may read an item, split it or abandon it while the slot works on it. A fixed order of steps
    replaces a lock:

    1. The slot stores the outcome of a record and the start time of the next one.
    2. The slot increments ``position``. What is stored for the records below ``position`` is therefore complete.
    3. The slot reads ``stop`` and starts the next record only if it is not set.

    The polling thread reads ``position``, sets ``stop`` and reads ``position`` again. If ``position`` has not moved,
    the slot will not start another record.
    """

    lane: Lane
    messages: list[Message]
    position: int = 0
    """Number of records that have their outcome."""

    failures: list[tuple[int, Failure]] = field(default_factory=list)
    """Index and failure of each record that failed."""

    outputs: list[tuple[int, list[ProducerRecord]]] = field(default_factory=list)
    """Index and emitted records of each record whose handler emitted any."""

    lineages: list[Lineage] = field(default_factory=list)
    """One lineage per handled record if the item is :attr:`redelivered`; otherwise empty."""

    unacknowledged: list[tuple[int, DeliveredRecord]] = field(default_factory=list, kw_only=True)
    """Index and delivery of each record that its handler has left unacknowledged (``client`` and ``individual``)."""

    lateness: list[tuple[int, int]] = field(default_factory=list)
    """Index of each redelivery that a handler was given, and the milliseconds between its due time and that call."""

    seconds: list[float] = field(default_factory=list)
    """Duration of each handler call."""

    bytes: int = 0
    """Size of the records that have an outcome; set when the item is back in its lane."""

    taken: int = 0
    """Number of leading records whose outcomes the polling thread has taken already; see :meth:`split`."""

    in_place: WaitingRecord | None = None
    """The only record of the item, if it waited in place or is handled in isolation; otherwise ``None``."""

    batch: bool = False
    """Whether the records are handled in one call, and get their outcomes together; see :class:`BatchProcessor`."""

    stop: bool = False
    """Set by the polling thread to make the slot return after the current record."""

    held: str = ""
    """Why the slot has returned the item without an outcome of the record at ``position``; empty if it has not."""

    outage: MetOutage | None = None
    """Why the item is held, if something is away that its source has declared."""

    delayed_ms: int | None = None
    """Redeliveries that are late by at least as many ms have waited for an outage; ``None`` = none has.

    Set by the polling thread."""

    abandoned: bool = False
    """Whether the polling thread has given the current record up. Its outcome is ignored."""

    started_s: float = 0.0
    """Monotonic start time of the record at ``position``; 0 = its handler is not running."""

    @property
    def redelivered(self) -> bool:
        """Whether the records come from a ready topic, or the only record waited in place or is isolated."""
        return self.lane.assigned.redelivered or self.in_place is not None

    @property
    def withdrawn(self) -> bool:
        """Whether the polling thread wants no further record to start: the partition is given away, or held."""
        return self.lane.closed or self.lane.held

    def offsets(self) -> list[int]:
        """Offsets of the records that have an outcome."""
        return [message.offset() for message in self.messages[: self.position]]

    def message_id(self) -> str:
        """Return the ``topic-partition@offset`` of the source record of the one at ``position``."""
        if self.position < len(self.lineages):
            return self.lineages[self.position].message_id
        return f"{self.lane.assigned.partition}@{self.messages[self.position].offset()}"

    def abandon(self, limit_s: float) -> WorkItem | None:
        """Give up the record at ``position`` if it was started before ``limit_s`` (monotonic).

        Returns:
            An item with all results before that record, which replaces this one; of a batch all records, which are
            handled one by one now. ``None`` if no such record is being handled, or if it got its outcome in the
            meantime.
        """
        batch, position = self.batch, self.position
        if not 0.0 < self.started_s < limit_s or position >= len(self.messages):
            return None
        self.stop = True
        if self.position != position:
            return None
        self.abandoned = True
        if batch:
            return WorkItem(self.lane, self.messages)
        return self.cut(self.taken, len(self.messages), position)

    def split(self, limit_s: float) -> tuple[WorkItem, list[Message]] | None:
        """Leave only the current record in the slot if it was started before ``limit_s`` (monotonic).

        Returns:
            An item with the records that have their outcome, and the records that have not been started. ``None`` if
            no record has to wait for the current one, or if the slot returns the item after this record anyway.
        """
        position = self.position
        if self.batch or self.stop or len(self.messages) == 1 or not 0.0 < self.started_s < limit_s:
            return None
        self.stop = True
        if self.position != position or position >= len(self.messages):
            return None
        done = self.cut(0, position, position)
        rest = self.messages[position + 1 :]
        del self.messages[position + 1 :]
        self.taken = position
        return done, rest

    def without_taken(self) -> WorkItem:
        """Return the item, which its slot has returned, without the records that :meth:`split` has taken from it."""
        return self.cut(self.taken, len(self.messages), self.position) if self.taken else self

    def cut(self, first: int, end: int, position: int) -> WorkItem:
        """Return an item with the records from index ``first`` on, up to ``end``, and their results.

        Args:
            first: index of the first record.
            end: index after the last record.
            position: number of records whose results are complete; of the next one only the preparation is kept.
        """
        done, prepared = range(first, position), range(first, min(position + 1, end))
        return WorkItem(
            self.lane,
            self.messages[first:end],
            position - first,
            [(index - first, failure) for index, failure in self.failures if index in done],
            [(index - first, records) for index, records in self.outputs if index in done],
            self.lineages[first : prepared.stop],
            [(index - first, late_ms) for index, late_ms in self.lateness if index in prepared],
            self.seconds[first:position],
            unacknowledged=[(index - first, each) for index, each in self.unacknowledged if index in done],
            in_place=self.in_place,
        )

    def handle_one_by_one(self) -> None:
        """Give the records of a batch back without outcomes, to be handled in a call each."""
        self.forget_prepared()
        self.batch = False

    def hold(self, cause: str) -> None:
        """Leave the current record without an outcome, because something outside it does not answer."""
        self.forget_prepared()
        self.held = cause

    def forget_prepared(self) -> None:
        """Keep nothing of the records without an outcome."""
        position = self.position
        del self.lineages[position:]
        self.lateness = [entry for entry in self.lateness if entry[0] < position]

    def keep_waits_within(self, room: int, now_s: float) -> None:
        """Let no more records wait alone by their keys than there is room for: the next one waits with its source.

        Args:
            room: how many more records of the partition may wait in place.
            now_s: monotonic seconds.
        """
        waits = [entry for entry in self.failures if entry[1].key_only and entry[0] >= self.taken]
        if self.in_place is not None or len(waits) <= room:
            return
        position, failure = waits[max(0, room)]
        call_s = self.seconds[position] if position < len(self.seconds) else sum(self.seconds)
        failure = failure._replace(key_only=False, after_ms=None)
        self.outage = MetOutage(failure, now_s - call_s, self.lineages[position : position + 1])
        self.position = position
        self.failures = [entry for entry in self.failures if entry[0] < position]
        self.outputs = [entry for entry in self.outputs if entry[0] < position]
        self.hold(failure.message)

    def fail_after_all(self, outage: MetOutage) -> None:
        """Give the record at ``position``, which met an outage, its outcome: it has failed like any other."""
        self.failures.append((self.position, outage.failure._replace(kind=FailureKind.RAISED)))
        self.lineages += outage.lineages
        self.position += 1
        self.held, self.outage = "", None

    def leave_slot(self) -> None:
        """The slot returns the item, which may stay in the queue for longer than the deadline."""
        self.started_s = 0.0

    def fail(self, error: BaseException) -> None:
        """Fail the current record because the slot itself raised an error."""
        if not self.abandoned and self.position < len(self.messages):
            failure = Failure(FailureKind.CRITICAL, type(error).__qualname__, f"in the slot: {error}")
            self.failures.append((self.position, failure))
            del self.lineages[self.position :]
            if self.redelivered:
                message = self.messages[self.position]
                partition = self.lane.assigned.partition
                self.lineages.append(Lineage(partition.topic, partition.number, message.offset(), 0))
            self.position += 1


in_slot: ContextVar[WorkItem | None] = ContextVar("in_slot", default=None)
"""The work item that this thread, a slot, handles; ``None`` in an event loop."""


class FinishedItems(SimpleQueue["WorkItem | None"]):
    """Work items that the slots return to the polling thread. ``None`` only wakes that thread."""

    def take(self, timeout_s: float) -> Iterator[WorkItem]:
        """Yield work items until the queue is empty. Wait up to ``timeout_s`` for the first entry."""
        with suppress(Empty):
            item = get_within(self, timeout_s)
            while True:
                if item is not None:
                    yield item
                item = self.get_nowait()

    def wake(self) -> None:
        """End the polling thread's wait: a stop was requested, a write ended or a session got a disposition."""
        self.put(None)
