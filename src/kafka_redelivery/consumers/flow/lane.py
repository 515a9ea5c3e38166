"""The buffered records of one partition, and which of them a slot may handle next.

A record that waits in place for its redelivery (see :meth:`Progress.wait_in_place`) stays where it is in its lane.
Until it is due, no record behind it is taken; in a :class:`KeyedLane`, no record behind it with the same key. When it
is due, it is taken without other records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.transport.clients.message_headers import size_of_headers
from kafka_redelivery.transport.protocols import Message, Partition

_MAX_OUTDATED = 100


def by_partition(messages: Sequence[Message]) -> dict[Partition, list[Message]]:
    """Return fetched records by partition, in the order of their offsets."""
    if not messages:
        return {}
    kind, end = type(messages[0]), 0  # its methods are looked up once: this runs for every record
    found: dict[Partition, list[Message]] = {}
    for key, run in groupby(zip(map(kind.topic, messages), map(kind.partition, messages), strict=True)):
        first, end = end, end + len(list(run))
        found.setdefault(Partition(*key), []).extend(messages[first:end])
    return found


def size_of(messages: Sequence[Message]) -> int:
    """Return the bytes of keys, values and headers."""
    return _payload_of(messages) + size_of_headers(messages) if messages else 0


def sizes_of(messages: Sequence[Message]) -> list[int]:
    """Return the bytes of each record: its key, its value and an equal part of all their headers."""
    if not messages:
        return []
    headers = size_of_headers(messages) // len(messages)
    keys = map(type(messages[0]).key, messages)
    return [value + len(key or b"") + headers for value, key in zip(map(len, messages), keys, strict=True)]


def _payload_of(messages: Sequence[Message]) -> int:
    key = type(messages[0]).key  # looked up once: this runs for every record
    return sum(map(len, messages)) + sum(map(len, filter(None, map(key, messages))))


@dataclass(slots=True)
class Buffered:
    """Number and size of records in the buffer."""

    records: int = 0
    bytes: int = 0

    def count(self, records: int, size: int) -> None:
        """Add to both; negative numbers subtract."""
        self.records += records
        self.bytes += size


@dataclass(slots=True, eq=False)
class Lane:
    """The buffered records of one partition, in the order of their offsets. Only the polling thread uses it."""

    assigned: AssignedPartition
    exclusive: bool
    """Whether at most one work item of the lane is in flight."""

    queue: deque[Message] = field(default_factory=deque)
    in_flight: int = 0
    """Number of work items in flight."""

    waiting: int = 0
    """Number of records that wait for a slot, without :attr:`unpersisted`."""

    buffered: Buffered = field(default_factory=Buffered)
    buffered_in_all: Buffered = field(default_factory=Buffered)
    """The sum of all lanes of source topics, or of ready topics. Each of these lanes adds to it."""

    _header_bytes: int = 0
    """The size of the headers of the buffered records.

    They are measured once, when the records arrive. When records leave, they have had an equal part: to know that of
    each record costs more than it is worth.
    """

    unpersisted: deque[Message] = field(default_factory=deque)
    """Records behind all others whose delivery no commit has persisted yet. Only :class:`NotedLanes` has any."""

    enqueued: bool = False
    """Whether the lane is in one of the queues of :class:`Lanes`."""

    wakes_ms: int | None = None
    """When the lane is examined again because a record that waits in place is due (epoch ms)."""

    _noted_ms: dict[int, int] = field(default_factory=dict)
    """See :meth:`note_wait`, by offset; some of these records may wait no longer."""

    closed: bool = False
    """Whether the partition was given back. No record of it is handed out any more."""

    held: bool = False
    """Whether the partition is in :attr:`Lanes.held`. No record of it is handed out while it is."""

    @property
    def may_start(self) -> bool:
        """Whether the lane may have records for another work item."""
        return bool(self.waiting) and not (self.exclusive and self.in_flight)

    @property
    def blocked(self) -> int:
        """Number of waiting records that are behind a record that waits in place, while others are not."""
        return 0

    def buffer(self, messages: Sequence[Message]) -> None:
        """Count records as buffered."""
        if not messages:
            return
        headers = size_of_headers(messages)
        self._header_bytes += headers
        size = _payload_of(messages) + headers
        self.buffered.count(len(messages), size)
        self.buffered_in_all.count(len(messages), size)

    def unbuffer(self, messages: Sequence[Message]) -> int:
        """Stop counting records that :meth:`buffer` counted, and return their bytes."""
        if not messages:
            return 0
        headers = self._header_bytes * len(messages) // self.buffered.records if self._header_bytes else 0
        self._header_bytes -= headers
        size = _payload_of(messages) + headers
        self.buffered.count(-len(messages), -size)
        self.buffered_in_all.count(-len(messages), -size)
        return size

    def add(self, messages: Sequence[Message]) -> None:
        """Append records."""
        self.queue.extend(messages)
        self.waiting += len(messages)

    @property
    def due_ms(self) -> int | None:
        """When the first record that waits in place is due (epoch ms); ``None`` if no record is behind one."""
        waits = self.assigned.progress.waiting
        first = waits.get(self.queue[0].offset()) if waits and self.queue else None
        return None if first is None else first.due_ms

    def note_wait(self, offset: int, difference_ms: int) -> None:
        """Note the wall clock minus the monotonic clock at the time when a record began to wait in place."""
        waits, noted = self.assigned.progress.waiting, self._noted_ms
        if len(noted) > len(waits) + _MAX_OUTDATED:
            self._noted_ms = {each: noted[each] for each in noted.keys() & waits}
        self._noted_ms[offset] = difference_ms

    def clock_set_back(self, difference_ms: int) -> None:
        """Shorten waits in place that began when the wall clock was ahead of the monotonic clock by more than this."""
        progress = self.assigned.progress
        for offset in list(progress.waiting):
            ahead_ms = self._noted_ms.get(offset, difference_ms) - difference_ms
            if ahead_ms > 0:
                progress.shorten_wait(offset, ahead_ms)
                self._noted_ms[offset] = difference_ms
                self.assigned.dirty = True

    def take(self, max_records: int, now_ms: int = 0) -> list[Message]:
        """Remove the next records that one slot may handle one after the other.

        Args:
            max_records: how many records to take at most.
            now_ms: epoch ms; a record that waits in place is not taken before it is due. Not used if none waits.
        """
        queue = self.queue
        if self.assigned.progress.waiting:
            taken = self._take_up_to_waiting(self.assigned.progress.waiting, max_records, now_ms)
        elif max_records >= len(queue):
            taken = list(queue)
            queue.clear()
        else:
            taken = [queue.popleft() for _ in range(max_records)]
        self.waiting -= len(taken)
        return taken

    def _take_up_to_waiting(self, waits: Mapping[int, WaitingRecord], max_records: int, now_ms: int) -> list[Message]:
        queue = self.queue
        taken: list[Message] = []
        while queue and len(taken) < max_records:
            first = waits.get(queue[0].offset())
            if first is None:
                taken.append(queue.popleft())
                continue
            if not taken and first.due_ms <= now_ms:
                taken.append(queue.popleft())
            break
        return taken

    def take_unpersisted(self) -> Message:
        """Remove the first unpersisted record, which will be handled in isolation."""
        return self.unpersisted.popleft()

    def requeue(self, message: Message) -> None:
        """Put a record that was taken, and now waits in place, before all others."""
        self.queue.appendleft(message)
        self.waiting += 1

    def put_back(self, messages: Sequence[Message], position: int) -> None:
        """Put the records of a work item from ``position`` on before all others; those before it are handled."""
        rest = messages[position:]
        self.queue.extendleft(reversed(rest))
        self.waiting += len(rest)

    def split(self, done: Sequence[Message], current: Message, rest: Sequence[Message]) -> None:
        """Put ``rest`` back from a work item that still handles ``current``. The records in ``done`` are handled."""
        del done, current
        self.put_back(rest, 0)

    def clear(self) -> list[Message]:
        """Remove and return all records, the unpersisted ones last."""
        removed = [*self.queue, *self.unpersisted]
        self.queue.clear()
        self.unpersisted.clear()
        self.waiting = 0
        return removed
