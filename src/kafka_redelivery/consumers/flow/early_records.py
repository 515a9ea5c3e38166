"""Redeliveries that arrive before their due time by the clock of this worker, because a scheduler's clock is ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from kafka_redelivery.consumers.clock import Clock, monotonic_s
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.headers import read_due
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message

MAX_HOLD_S = 60.0
"""Longest time that a record is held. Clocks that differ by more need to be corrected."""


class _Held(NamedTuple):
    due_ms: int
    until_s: float
    """When the record is handed out even if it is not due (monotonic)."""

    number: int
    """Recognizes the record in the heaps."""

    message: Message


class EarlyRecords:
    """Holds records of ready topics back until they are due. Only the polling thread uses it.

    A record holds back only those behind it that have to keep their order: the rest of its partition, the records of
    its key, or none.
    """

    def __init__(self, ordering: Ordering, clock: Clock, *, in_order: bool) -> None:
        """Start without records.

        Args:
            ordering: which order of records is kept.
            clock: epoch ms.
            in_order: whether the records of a partition have to keep the order of their offsets in any case.
        """
        self._ordering = Ordering.PARTITION if in_order else ordering
        self._clock = clock
        self.held: dict[Lane, dict[Hashable, deque[_Held]]] = {}
        """The held records of each lane. Those that keep their order are in one queue."""

        self._by_due: list[tuple[float, int, Lane, Hashable]] = []
        """Heap of the queues by the due time of their first record, with its number."""

        self._by_limit: list[tuple[float, int, Lane, Hashable]] = []
        """The same by the time at which it is handed out even if it is not due."""

        self._sequence = count()

    def hold(self, lane: Lane, messages: list[Message]) -> list[Message]:
        """Hold those fetched records of a ready topic that are early, and return the others.

        The timestamp of a ready record is the time of its release, which is not before its due time. So the headers of
        a record with a timestamp in the past need not be read.
        """
        now_ms = self._clock()
        if lane not in self.held and all(message.timestamp()[1] <= now_ms for message in messages):
            return messages
        queues = self.held.setdefault(lane, {})
        until_s = monotonic_s() + MAX_HOLD_S
        others = []
        for message in messages:
            order = self._order(message)
            held = _Held(_due_ms(message, now_ms), until_s, next(self._sequence), message)
            queue = queues.get(order)
            if queue is not None:
                queue.append(held)
            elif held.due_ms > now_ms:
                queues[order] = deque((held,))
                self._push(lane, order, held)
            else:
                others.append(message)
        if not queues:
            del self.held[lane]
        return others

    def take_due(self) -> Iterator[tuple[Lane, list[Message]]]:
        """Yield the records that are due now, or were held for long enough, with their lane."""
        now_ms, now_s = self._clock(), monotonic_s()
        for heap, now in ((self._by_due, now_ms), (self._by_limit, now_s)):
            while heap and (heap[0][0] <= now or not self._is_first(*heap[0])):
                at, number, lane, order = heappop(heap)
                if self._is_first(at, number, lane, order):
                    yield lane, self._take(lane, order, now_ms, now_s)

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until a held record is due, but at most ``max_s``. There must be one."""
        due_s, limit_s = (self._by_due[0][0] - self._clock()) / 1000, self._by_limit[0][0] - monotonic_s()
        return min(max_s, max(0.0, min(due_s, limit_s)))

    def remove(self, lane: Lane) -> list[Message]:
        """Remove and return the held records of a lane that is closed."""
        return [held.message for queue in self.held.pop(lane, {}).values() for held in queue]

    def _take(self, lane: Lane, order: Hashable, now_ms: int, now_s: float) -> list[Message]:
        queues = self.held[lane]
        queue = queues[order]
        due = []
        while queue and (queue[0].due_ms <= now_ms or queue[0].until_s <= now_s):
            due.append(queue.popleft().message)
        if queue:
            self._push(lane, order, queue[0])
        else:
            del queues[order]
            if not queues:
                del self.held[lane]
        return due

    def _push(self, lane: Lane, order: Hashable, held: _Held) -> None:
        heappush(self._by_due, (held.due_ms, held.number, lane, order))
        heappush(self._by_limit, (held.until_s, held.number, lane, order))

    def _is_first(self, _: float, number: int, lane: Lane, order: Hashable) -> bool:
        """Whether an entry of a heap is that of the first record of its queue. Otherwise it is out of date."""
        queue = self.held.get(lane, {}).get(order)
        return queue is not None and queue[0].number == number

    def _order(self, message: Message) -> Hashable:
        """Return what the record has in common with those that must not overtake it."""
        match self._ordering:
            case Ordering.PARTITION:
                return None
            case Ordering.KEY:
                return message.key()
            case Ordering.UNORDERED:
                return message.offset()


def _due_ms(message: Message, now_ms: int) -> int:
    """Return the due time of a ready record; 0 if it is not early."""
    if message.timestamp()[1] <= now_ms:
        return 0
    try:
        return read_due(headers_of(message)) or 0
    except UnreadableHeadersError:
        return 0
