"""One partition of one retry tier, as far as a scheduler has read it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from kafka_redelivery.topology.wire.headers import read_due, read_waiting
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message

_ROUNDING_MS = 1
"""Due times are rounded up and append times down. A difference of 1 ms is waited for here, not in another tier."""


class TierRecord(NamedTuple):
    """A record that waits in a tier. Ordered by the time it leaves, then by offset."""

    leaves_ms: int
    """When it leaves the tier (epoch ms)."""

    offset: int
    due_ms: int
    final: bool
    """Whether it is due when it leaves, so that it goes to its ready topic and not to a shorter tier."""

    message: Message
    size: int
    """Bytes of key, value and headers."""

    origin: tuple[str, int] | None = None
    """Topic and partition of its source record; ``None`` if :func:`read_waiting` cannot read its headers."""


class TierPartition:
    """The records of one partition of a tier, in the order in which they leave.

    All records of a tier wait for the same delay, so a partition is read in order and waits for its first record. The
    mixed topic (``ordered`` is false) holds records with any delay and uses a heap.
    """

    def __init__(
        self, topic: str, delay_ms: int, progress: Progress, *, ordered: bool, before: TierPartition | None = None
    ) -> None:
        """Start at the committed progress.

        Args:
            topic: the name of the tier's topic.
            delay_ms: the longest time that a record stays, counted from its append.
            progress: the finished offsets of the partition.
            ordered: whether all records stay for the same time.
            before: the same partition before a rewind.
        """
        self.refusals: dict[int, str] = {} if before is None else before.refusals
        """Why Kafka has refused records, by offset. These are dead-lettered when they are read again."""

        self.fetch_at_ms: float = 0.0 if before is None else before.fetch_at_ms
        """Until then it is postponed (epoch ms): its records were dropped, and are fetched again before they leave."""

        self.topic = topic
        self.delay_ms = delay_ms
        self.progress = progress
        self.clock_faults = 0
        """Records with impossible times since this was last set to 0."""

        self.bytes = 0
        """Bytes of the records in the buffer."""

        self.trusted = True
        """Whether the time of each record would be the same if it was fetched again."""

        self.end = 0
        """The end of the partition when a fetch last reached it, as far as that was asked for."""

        if ordered:
            progress.in_order()
        self._ordered = ordered
        self._queue: deque[TierRecord] = deque()
        self._heap: list[TierRecord] = []

    def __len__(self) -> int:
        """Return the number of records in the buffer."""
        return len(self._queue) + len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """When the next record leaves (epoch ms), ``None`` if the buffer is empty."""
        if self._ordered:
            return self._queue[0].leaves_ms if self._queue else None
        return self._heap[0].leaves_ms if self._heap else None

    @property
    def last_ms(self) -> int | None:
        """When the last record leaves (epoch ms), at the latest; ``None`` if the buffer is empty."""
        if self._ordered:
            return self._queue[-1].leaves_ms if self._queue else None
        return max((record.leaves_ms for record in self._heap), default=None)

    @property
    def oldest_ms(self) -> int | None:
        """Append time of the oldest record (epoch ms), ``None`` if the buffer is empty."""
        if self._ordered:
            return self._queue[0].message.timestamp()[1] if self._queue else None
        return min((record.message.timestamp()[1] for record in self._heap), default=None)

    def add(self, messages: Sequence[Message], sizes: Sequence[int], now_ms: int) -> int | None:
        """Buffer fetched records, but for those that are finished already.

        Args:
            messages: the records, in the order of their offsets; not empty.
            sizes: bytes of the key, value and headers of each.
            now_ms: epoch ms.

        Returns:
            the offset of the first record that must be fetched again later, because the commit metadata has no space
            for it; ``None`` if all are buffered or finished.
        """
        progress = self.progress
        first, last = messages[0].offset(), messages[-1].offset()
        gapless = self._ordered and not progress.apart and last - first + 1 == len(messages)
        tracked = gapless and progress.track_range(first, len(messages))
        for message, size in zip(messages, sizes, strict=True):
            if not tracked:
                offset = message.offset()
                if offset < progress.next_offset or (progress.apart and progress.skip_apart(offset)):
                    continue
                if not (self._ordered or progress.can_track_offset(offset)):
                    return offset
                if not progress.track(offset):
                    continue
            self._buffer(message, size, now_ms)
        return None

    def _buffer(self, message: Message, size: int, now_ms: int) -> None:
        appended_ms = message.timestamp()[1]
        try:
            headers = headers_of(message)
            due_ms, origin = read_waiting(headers) or (read_due(headers), None)
        except UnreadableHeadersError:
            due_ms, origin = None, None
        if due_ms is None:
            due_ms = appended_ms + self.delay_ms  # the header is damaged; the tier's delay is all that is known
        stays_until_ms = appended_ms + self.delay_ms
        final = due_ms <= stays_until_ms + _ROUNDING_MS
        leaves_ms = due_ms if final else stays_until_ms
        if leaves_ms > now_ms + self.delay_ms + _ROUNDING_MS:
            # The clock of the writer or of this process is wrong. No record waits longer than the tier's delay.
            self.clock_faults += 1
            self.trusted = False
            leaves_ms = now_ms + self.delay_ms
        record = TierRecord(leaves_ms, message.offset(), due_ms, final, message, size, origin)
        self.bytes += size
        if self._ordered:
            self._queue.append(record)
        else:
            heappush(self._heap, record)

    def take(self, now_ms: int, max_records: int, max_bytes: int = 2**62) -> list[TierRecord]:
        """Remove and return the records that leave by ``now_ms``.

        Args:
            now_ms: epoch ms.
            max_records: number of records at most.
            max_bytes: size of the records at most, or more by a part of the last one.
        """
        taken: list[TierRecord] = []
        size = 0
        if self._ordered:
            queue = self._queue
            while queue and queue[0].leaves_ms <= now_ms and len(taken) < max_records and size < max_bytes:
                taken.append(queue.popleft())
                size += taken[-1].size
        else:
            heap = self._heap
            while heap and heap[0].leaves_ms <= now_ms and len(taken) < max_records and size < max_bytes:
                taken.append(heappop(heap))
                size += taken[-1].size
        self.bytes -= size
        return taken

    def waiting(self) -> list[TierRecord]:
        """Return the records in the buffer, by offset."""
        return list(self._queue) if self._ordered else sorted(self._heap, key=lambda record: record.offset)

    def space_for(self, offsets: Sequence[int]) -> int:
        """Return how many of the first of these offsets, ascending, may leave before those in front of them."""
        return self.progress.space_apart(offsets) if self._ordered else len(offsets)

    def take_apart(self, offsets: Collection[int]) -> None:
        """Remove records from the buffer before they leave, and mark them as finished; see :meth:`space_for`."""
        gone = [record for record in (*self._queue, *self._heap) if record.offset in offsets]
        self.bytes -= sum(record.size for record in gone)
        self._queue = deque(record for record in self._queue if record.offset not in offsets)
        self._heap = [record for record in self._heap if record.offset not in offsets]
        heapify(self._heap)
        if self._ordered:
            self.progress.complete_apart(record.offset for record in gone)
        else:
            self.progress.complete([record.offset for record in gone])

    def has_metadata_space(self, records: int) -> bool:
        """Whether the commit metadata has space for ``records`` more; an ordered tier needs none."""
        return self._ordered or self.progress.can_track(records)

    def clock_set_back(self, now_ms: int) -> None:
        """Limit the wait of all records to the tier's delay from ``now_ms``, because the wall clock was set back."""
        self.trusted = False
        self.fetch_at_ms = 0.0
        latest_ms = now_ms + self.delay_ms
        self.clock_faults += sum(record.leaves_ms > latest_ms for record in (*self._queue, *self._heap))
        self._queue = deque(record._replace(leaves_ms=min(record.leaves_ms, latest_ms)) for record in self._queue)
        self._heap = [record._replace(leaves_ms=min(record.leaves_ms, latest_ms)) for record in self._heap]
        heapify(self._heap)
