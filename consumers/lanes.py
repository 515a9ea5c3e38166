"""Which records may be handled at the same time, and which slot gets what next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from zlib import crc32

from consumers.unit import Assigned, Lane, Unit
from topology.settings import Ordering
from transport.protocols import Message

LONGEST_UNIT = 256

DUE_SHARE = 3
"""So many units of redeliveries are begun for one of fresh records, where both wait."""


class Lanes:
    """Everything that waits for a slot, in line. Not thread-safe: owned by the polling thread.

    By partition, one unit of a partition is under way at a time. By key, the same for each of several
    lanes that the keys of a partition are spread over. Unordered, any number.
    """

    def __init__(self, ordering: Ordering, slots: int) -> None:
        self._ordering = ordering
        self._slots = slots
        self._fresh: deque[Lane] = deque()
        self._due: deque[Lane] = deque()
        self._due_in_a_row = 0
        self.waiting = 0
        """How many records wait for a slot."""

    def open(self, assigned: Assigned) -> None:
        """Give a partition its lanes."""
        count = self._slots if self._ordering is Ordering.KEY else 1
        exclusive = self._ordering is not Ordering.UNORDERED
        assigned.lanes = [Lane(assigned, exclusive) for _ in range(count)]

    def add(self, assigned: Assigned, messages: Iterable[Message]) -> None:
        """Queue records of one partition, in their order."""
        lanes = assigned.lanes
        if len(lanes) == 1:
            before = len(lanes[0].queue)
            lanes[0].queue.extend(messages)
            self.waiting += len(lanes[0].queue) - before
            self._enlist(lanes[0])
            return
        for message in messages:
            lane = lanes[crc32(message.key() or b"") % len(lanes)]
            lane.queue.append(message)
            self.waiting += 1
            self._enlist(lane)

    def next_unit(self) -> Unit | None:
        """The next piece of work, or ``None`` if no lane may start one."""
        while line := self._next_line():
            lane = line.popleft()
            lane.listed = False
            if lane.queue:  # empty once its partition was closed
                self._due_in_a_row = self._due_in_a_row + 1 if line is self._due else 0
                return self._start(lane)
        return None

    def _next_line(self) -> deque[Lane]:
        """Redeliveries first, for they have a due time; but where both wait, every fourth unit is a fresh one."""
        if self._due and not (self._fresh and self._due_in_a_row >= DUE_SHARE):
            return self._due
        return self._fresh

    def _start(self, lane: Lane) -> Unit:
        # Few records: a share for each slot. Many: as many as one unit may hold.
        size = min(LONGEST_UNIT, max(1, self.waiting // (2 * self._slots)), len(lane.queue))
        if lane.exclusive and self._ordering is Ordering.PARTITION:
            size = min(LONGEST_UNIT, len(lane.queue))
        queue = lane.queue
        messages = list(islice(queue, size))
        for _ in range(size):
            queue.popleft()
        self.waiting -= size
        lane.under_way += 1
        self._enlist(lane)
        return Unit(lane, messages)

    def put_back(self, unit: Unit) -> None:
        """Take a unit back: what it did not get to is first in its lane again."""
        lane = unit.lane
        lane.under_way -= 1
        if lane.assigned.closed:
            return
        rest = unit.messages[unit.position :]
        lane.queue.extendleft(reversed(rest))
        self.waiting += len(rest)
        self._enlist(lane)

    def close(self, assigned: Assigned) -> None:
        """Forget what waits for a partition."""
        for lane in assigned.lanes:
            self.waiting -= len(lane.queue)
            lane.queue.clear()

    def _enlist(self, lane: Lane) -> None:
        if not lane.listed and lane.queue and not (lane.exclusive and lane.under_way):
            lane.listed = True
            (self._due if lane.assigned.redelivered else self._fresh).append(lane)
