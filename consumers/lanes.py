"""Which records may be handled at the same time, and which slot gets what next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count

from consumers.clock import Clock, wall_clock_ms
from consumers.keyed_lane import KeyedLane
from consumers.lane import Held, Lane, size_of
from consumers.unit import Assigned, Unit
from topology.settings import Ordering
from transport.protocols import Message, Partition

LONGEST_UNIT = 256

DUE_SHARE = 3
"""So many units of redeliveries are begun for one of fresh records, where both wait."""

UNIT_S = 0.005
"""So long a unit should take: cheap handlers get many records at once, slow ones a single one."""

_LONGEST_UNIT_S = 0.02
_IN_LINE_S = 0.1
"""Slow calls need nobody in line behind them: the polling thread is back long before they end."""

_RECENT = 0.2
"""How much the last unit counts in the recent mean."""


class Lanes:
    """Everything that waits for a slot, in line. Not thread-safe: owned by the polling thread.

    Every partition has one lane. By partition, one unit of it is under way at a time. By key, any number
    that have no key in common. Unordered, any number.
    """

    def __init__(self, ordering: Ordering, slots: int, *, noting: bool = False, clock: Clock = wall_clock_ms) -> None:
        """Nothing waits.

        Args:
            ordering: what is kept in order.
            slots: how many units are worked on at once.
            noting: whether records wait until :meth:`release` says that a commit has noted them.
            clock: tells when a record that waits in place is due.
        """
        self.noting = noting
        self.clock = clock
        self._asleep: list[tuple[int, int, Lane]] = []
        """Lanes with nothing to start before something of theirs is due, the first one first."""

        self._naps = count()
        self._ordering = ordering
        self._slots = slots
        self._lanes: dict[Assigned, Lane] = {}
        self._fresh: deque[Lane] = deque()
        self._due: deque[Lane] = deque()
        self._due_in_a_row = 0
        self._call_s: float | None = None
        """What a call took recently, on average; ``None`` = nothing is known."""

        self._held = {False: Held(), True: Held()}
        self.waiting = 0
        """How many records wait for a slot."""

        # By partition there is no second unit of a lane to go on with, so the time to fetch it counts more.
        self._unit_s = min(_LONGEST_UNIT_S, UNIT_S * slots) if ordering is Ordering.PARTITION else UNIT_S

    @property
    def in_line(self) -> int:
        """How many units may wait behind those in the slots, so that no slot waits for the polling thread."""
        if self._call_s is None or self._call_s <= _IN_LINE_S:
            return self._slots
        return int(self._slots * _IN_LINE_S / self._call_s)

    @property
    def ready(self) -> bool:
        """Whether a unit may start as soon as a slot is free, as far as is known."""
        return bool(self._due or self._fresh)

    def due_in_s(self, most_s: float) -> float:
        """How long until a record that waits in place is due; at most ``most_s``."""
        while self._asleep and self._asleep[0][2].closed:
            heappop(self._asleep)
        if not self._asleep:
            return most_s
        return min(most_s, max(0.0, (self._asleep[0][0] - self.clock()) / 1000))

    def doable(self, within_s: float) -> int:
        """About how many records the slots can handle in that time, and a few more."""
        few = 2 * self._slots
        return few if self._call_s is None else few + int(self._slots * within_s / max(self._call_s, 1e-6))

    def held(self, *, redelivered: bool) -> Held:
        """What of the sources, or of the ready topics, waits or is under way."""
        return self._held[redelivered]

    def all(self) -> Iterable[tuple[Partition, Lane]]:
        """The lanes of all partitions."""
        return ((assigned.partition, lane) for assigned, lane in self._lanes.items())

    def open(self, assigned: Assigned) -> None:
        """Give a partition its lane."""
        kind = KeyedLane if self._ordering is Ordering.KEY else Lane
        self._lanes[assigned] = kind(assigned, exclusive=self._ordering is Ordering.PARTITION)

    def add(self, assigned: Assigned, messages: list[Message]) -> None:
        """Queue records of one partition, in their order."""
        lane = self._lanes[assigned]
        if self.noting:
            lane.unnoted.extend(messages)
        else:
            lane.add(messages)
            self.waiting += len(messages)
        self._hold(lane, len(messages), size_of(messages))
        self._enlist(lane)
        self._put_to_sleep(lane)

    def release(self, assigned: Assigned, end: int) -> None:
        """What lies below the offset ``end`` is noted, and may be handed out."""
        lane = self._lanes.get(assigned)
        if lane is None:
            return
        unnoted = lane.unnoted
        if unnoted and unnoted[-1].offset() < end:
            released = list(unnoted)
            unnoted.clear()
        else:
            released = []
            while unnoted and unnoted[0].offset() < end:
                released.append(unnoted.popleft())
        lane.add(released)
        self.waiting += len(released)
        self._enlist(lane)
        self._put_to_sleep(lane)

    def hold(self, assigned: Assigned, message: Message) -> None:
        """Take a record back that waits in place, whose unit is back already."""
        lane = self._lanes.get(assigned)
        if lane is None:
            return
        if message.offset() < assigned.progress.suspect_end:
            lane.unnoted.appendleft(message)
        else:
            lane.hold(message)
            self.waiting += 1
        self._hold(lane, 1, size_of((message,)))
        self._enlist(lane)

    def next_unit(self) -> Unit | None:
        """The next piece of work, or ``None`` if no lane may start one."""
        now_ms = self.clock() if self._asleep or self._may_wait() else 0
        while self._asleep and self._asleep[0][0] <= now_ms:
            lane = heappop(self._asleep)[2]
            lane.asleep_until_ms = None
            if not lane.closed:
                self._line_up(lane)
        while line := self._next_line():
            lane = line.popleft()
            lane.listed = False
            messages = lane.take(self._size(lane), now_ms)
            if messages:  # none once its partition was closed, or where all have to wait for their keys
                self._due_in_a_row = self._due_in_a_row + 1 if line is self._due else 0
                self.waiting -= len(messages)
                return self._begun(lane, messages)
            self._put_to_sleep(lane)
        return None

    def alone(self, assigned: Assigned) -> Unit | None:
        """The first record of a partition that is not noted, past all others; ``None`` if there is none any more."""
        lane = self._lanes.get(assigned)
        return self._begun(lane, [lane.take_alone()]) if lane is not None and lane.unnoted else None

    def pop_unnoted(self, lane: Lane) -> Message:
        """Remove the first record that is not noted: it is not to be handed out, for now."""
        message = lane.unnoted.popleft()
        self._hold(lane, -1, -size_of((message,)))
        return message

    def _begun(self, lane: Lane, messages: list[Message]) -> Unit:
        lane.under_way += 1
        self._enlist(lane)
        self._put_to_sleep(lane)
        waits = lane.assigned.progress.waiting
        return Unit(lane, messages, in_place=waits.get(messages[0].offset()) if waits else None)

    def _may_wait(self) -> bool:
        return any(lane.assigned.progress.waiting for line in (self._due, self._fresh) for lane in line)

    def _next_line(self) -> deque[Lane]:
        """Redeliveries first, for they have a due time; but where both wait, every fourth unit is a fresh one."""
        if self._due and not (self._fresh and self._due_in_a_row >= DUE_SHARE):
            return self._due
        return self._fresh

    def _size(self, lane: Lane) -> int:
        """How many records the next unit may hold."""
        if self._call_s is None:
            return 1
        size = min(LONGEST_UNIT, int(self._unit_s / max(self._call_s, 1e-6)))
        if not lane.exclusive:
            # Few records: a share for each slot.
            size = min(size, self.waiting // (2 * self._slots))
        return max(1, size)

    def put_back(self, unit: Unit) -> None:
        """Take a unit back: what it did not get to is first in its lane again."""
        self._learn(unit.seconds)
        lane = unit.lane
        lane.under_way -= 1
        over = unit.messages if lane.closed else unit.messages[: unit.position]
        unit.bytes = size_of(over)
        self._hold(lane, -len(over), -unit.bytes)
        if not lane.closed:
            before = lane.waiting
            lane.put_back(unit.messages, unit.position)
            self.waiting += lane.waiting - before
            self._enlist(lane)

    def split(self, unit: Unit, limit_s: float) -> Unit | None:
        """Let nobody wait for a unit that has been at one record since before ``limit_s``: that one stays alone.

        Returns:
            what it has done so far, to be written; ``None`` if nothing changed.
        """
        lane = unit.lane
        parts = None if lane.closed else unit.split(limit_s)
        if parts is None:
            return None
        done, rest = parts
        self._learn(done.seconds)
        done.bytes = size_of(done.messages)
        self._hold(lane, -done.position, -done.bytes)
        lane.split(done.messages, unit.messages[unit.taken], rest)
        self.waiting += len(rest)
        self._enlist(lane)
        return done

    def _learn(self, seconds: list[float]) -> None:
        if seconds:
            mean_s = sum(seconds) / len(seconds)
            self._call_s = mean_s if self._call_s is None else self._call_s + _RECENT * (mean_s - self._call_s)

    def close(self, assigned: Assigned) -> None:
        """Forget what waits for a partition, and begin nothing more of it."""
        lane = self._lanes.pop(assigned, None)
        if lane is not None:
            lane.closed = True
            self.waiting -= lane.waiting
            dropped = lane.clear()
            self._hold(lane, -len(dropped), -size_of(dropped))

    def keep(self, lane: Lane, message: Message) -> None:
        """Count a record as held whose unit is back, since nobody has acknowledged it."""
        self._hold(lane, 1, size_of((message,)))

    def let_go(self, lane: Lane, message: Message) -> None:
        """The opposite."""
        self._hold(lane, -1, -size_of((message,)))

    def _hold(self, lane: Lane, records: int, size: int) -> None:
        for held in (lane.held, self._held[lane.assigned.redelivered]):
            held.records += records
            held.bytes += size

    def _enlist(self, lane: Lane) -> None:
        if not lane.listed and lane.may_start:
            self._line_up(lane)

    def _line_up(self, lane: Lane) -> None:
        if not lane.listed:
            lane.listed = True
            (self._due if lane.assigned.redelivered else self._fresh).append(lane)

    def _put_to_sleep(self, lane: Lane) -> None:
        """A lane that is not in line is woken when the first of its records is due."""
        due_ms = None if lane.listed else lane.due_ms
        if due_ms is not None and (lane.asleep_until_ms is None or due_ms < lane.asleep_until_ms):
            lane.asleep_until_ms = due_ms
            heappush(self._asleep, (due_ms, next(self._naps), lane))
