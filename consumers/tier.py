"""One partition of one tier, as far as a scheduler has read it."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from consumers.lane import size_of
from topology.headers import read_due
from topology.progress import Progress
from transport.message_headers import UnreadableHeadersError, headers_of
from transport.protocols import Message

_ROUNDING_MS = 1
"""Due times are rounded up, append times down: a ms between them is waited for here, not in another tier."""


class Held(NamedTuple):
    """A record that waits. Ordered by when it leaves, then by offset."""

    leaves_ms: int
    offset: int
    due_ms: int
    final: bool
    """Whether nothing remains to be waited for when it leaves."""

    message: Message


class Tier:
    """A tier has one delay, so a partition of it is in the order of leaving and waits for its head.

    Only the mixed topic (``ordered`` false) is read out of order, with a heap.
    """

    def __init__(self, topic: str, delay_ms: int, progress: Progress, *, ordered: bool) -> None:
        """Begin at what is committed.

        Args:
            topic: its name.
            delay_ms: the longest a record stays, from its append on.
            progress: what is done of the partition.
            ordered: whether all records stay equally long.
        """
        self.topic = topic
        self.progress = progress
        self.clock_faults = 0
        """Records, since it was last set to 0, whose times cannot be true."""

        self.bytes = 0
        """Of the keys and values held."""

        self._delay_ms = delay_ms
        self._ordered = ordered
        self._queue: deque[Held] = deque()
        self._heap: list[Held] = []

    def __len__(self) -> int:
        """How many records are held."""
        return len(self._queue) + len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """When the next record leaves (epoch ms), ``None`` if none is held."""
        if self._ordered:
            return self._queue[0].leaves_ms if self._queue else None
        return self._heap[0].leaves_ms if self._heap else None

    @property
    def oldest_ms(self) -> int | None:
        """Since when the record at the watermark waits (epoch ms)."""
        if self._ordered:
            return self._queue[0].message.timestamp()[1] if self._queue else None
        return min((held.message.timestamp()[1] for held in self._heap), default=None)

    def add(self, message: Message, now_ms: int) -> bool:
        """Hold a fetched record, unless it is done already.

        Returns:
            false if it has to be fetched again later: its note would not fit into the commit metadata.
        """
        offset = message.offset()
        if offset < self.progress.next_offset:
            return True
        if not self._ordered and not self.progress.fits_next(offset):
            return False
        if not self.progress.see(offset):
            return True
        appended_ms = message.timestamp()[1]
        due_ms = _due(message)
        if due_ms is None:
            due_ms = appended_ms + self._delay_ms  # its own headers are damaged: the tier's delay is what we know
        stays_until = appended_ms + self._delay_ms
        final = due_ms <= stays_until + _ROUNDING_MS
        leaves_ms = due_ms if final else stays_until
        if leaves_ms > now_ms + self._delay_ms + _ROUNDING_MS:
            # A clock is wrong, the writer's or ours. Whatever it is, nobody waits longer than the tier's delay.
            self.clock_faults += 1
            leaves_ms = now_ms + self._delay_ms
        held = Held(leaves_ms, offset, due_ms, final, message)
        self.bytes += size_of((message,))
        if self._ordered:
            self._queue.append(held)
        else:
            heappush(self._heap, held)
        return True

    def take(self, now_ms: int, most: int) -> list[Held]:
        """Remove and return the records that leave now, at most so many."""
        taken: list[Held] = []
        if self._ordered:
            queue = self._queue
            while queue and queue[0].leaves_ms <= now_ms and len(taken) < most:
                taken.append(queue.popleft())
        else:
            heap = self._heap
            while heap and heap[0].leaves_ms <= now_ms and len(taken) < most:
                taken.append(heappop(heap))
        self.bytes -= size_of([held.message for held in taken])
        return taken

    def noteworthy(self, more: int) -> bool:
        """Whether progress stays within the commit metadata if ``more`` records are read; always so in order."""
        return self._ordered or self.progress.fits(more)

    def clock_set_back(self, now_ms: int) -> None:
        """Our own clock jumped back: nothing held waits longer than the tier's delay from now on."""
        latest = now_ms + self._delay_ms
        self.clock_faults += sum(held.leaves_ms > latest for held in (*self._queue, *self._heap))
        self._queue = deque(held._replace(leaves_ms=min(held.leaves_ms, latest)) for held in self._queue)
        self._heap = [held._replace(leaves_ms=min(held.leaves_ms, latest)) for held in self._heap]
        heapify(self._heap)


def _due(message: Message) -> int | None:
    try:
        return read_due(headers_of(message))
    except UnreadableHeadersError:
        return None
