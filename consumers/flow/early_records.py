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
        self._held: dict[Lane, dict[Hashable, deque[_Held]]] = {}
        """The held records of each lane. Those that keep their order are in one queue."""

        self._heads: list[tuple[int, int, float, Lane, Hashable]] = []
        """Heap of the queues by the due time of their first record."""

        self._sequence = count()

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, lane: Lane, messages: list[Message]) -> list[Message]:
        """Hold those fetched records of a ready topic that are early, and return the others.

        The timestamp of a ready record is the time of its release, which is not before its due time. So the headers of
        a record with a timestamp in the past need not be read.
        """
        now_ms = self._clock()
        if lane not in self._held and all(message.timestamp()[1] <= now_ms for message in messages):
            return messages
        queues = self._held.setdefault(lane, {})
        until_s = monotonic_s() + MAX_HOLD_S
        others = []
        for message in messages:
            order = self._order(message)
            held = _Held(_due_ms(message, now_ms), until_s, message)
            queue = queues.get(order)
            if queue is not None:
                queue.append(held)
            elif held.due_ms > now_ms:
                queues[order] = deque((held,))
                self._push(lane, order, held)
            else:
                others.append(message)
        if not queues:
            del self._held[lane]
        return others

    def take_due(self) -> Iterator[tuple[Lane, list[Message]]]:
        """Yield the records that are due now, or were held for long enough, with their lane."""
        now_ms, now_s = self._clock(), monotonic_s()
        while self._heads:
            due_ms, _, until_s, lane, order = self._heads[0]
            if due_ms > now_ms and until_s > now_s and lane in self._held:
                return
            heappop(self._heads)
            if lane in self._held:
                yield lane, self._take(lane, order, now_ms, now_s)

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until a held record is due, but at most ``max_s``."""
        return min(max_s, max(0.0, (self._heads[0][0] - self._clock()) / 1000)) if self._held else max_s

    def remove(self, lane: Lane) -> list[Message]:
        """Remove and return the held records of a lane that is closed."""
        return [held.message for queue in self._held.pop(lane, {}).values() for held in queue]

    def _take(self, lane: Lane, order: Hashable, now_ms: int, now_s: float) -> list[Message]:
        queues = self._held[lane]
        queue = queues[order]
        due = []
        while queue and (queue[0].due_ms <= now_ms or queue[0].until_s <= now_s):
            due.append(queue.popleft().message)
        if queue:
            self._push(lane, order, queue[0])
        else:
            del queues[order]
            if not queues:
                del self._held[lane]
        return due

    def _push(self, lane: Lane, order: Hashable, held: _Held) -> None:
        heappush(self._heads, (held.due_ms, next(self._sequence), held.until_s, lane, order))

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
