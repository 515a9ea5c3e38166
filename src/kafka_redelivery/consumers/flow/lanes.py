"""Which records may be handled concurrently, and which work item starts next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import count

from kafka_redelivery.consumers.clock import Clock, monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.clock_watch import ClockWatch
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.early_records import EarlyRecords
from kafka_redelivery.consumers.flow.keyed_lane import KeyedLane
from kafka_redelivery.consumers.flow.lane import Buffered, Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.transport.protocols import Message, Partition

MAX_RECORDS_PER_ITEM = 1024
"""At 256 records, handing items over cost a worker with a fast handler a tenth of its time."""

MAX_REDELIVERIES_IN_A_ROW = 3
"""After this many work items of redeliveries, one of first deliveries starts if any wait."""

TARGET_ITEM_S = 0.005
"""Target duration of a work item: it contains many records for fast handlers and one record for slow handlers."""

_MAX_TARGET_ITEM_S = 0.02

_MAX_QUEUED_S = 0.1
"""Up to this mean call duration every slot gets one queued item; with slower calls, fewer items are queued."""

_SMOOTHING = 0.2
"""Weight of the latest work item in the moving average of call durations."""


class Lanes:
    """All buffered records, and the lanes that may start a work item. Only the polling thread uses it.

    Each partition has one lane. With ordering by partition, a lane has one work item in flight at a time. With
    ordering by key, it has any number of work items that have no key in common. Unordered, it has any number.
    """

    def __init__(
        self,
        ordering: Ordering,
        slots: int,
        *,
        persist_deliveries: bool = False,
        clock: Clock = wall_clock_ms,
        monotonic_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Start without lanes.

        Args:
            ordering: which order of records is kept.
            slots: how many work items are handled concurrently.
            persist_deliveries: whether added records wait until :meth:`admit` says that a commit has persisted their
                delivery.
            clock: compared with the due time of records that wait in place, and of redeliveries.
            monotonic_s: shows when that clock was set back.
        """
        self._early = EarlyRecords(ordering, clock, in_order=persist_deliveries)
        self.persist_deliveries = persist_deliveries
        self.clock = clock
        self._clock_watch = ClockWatch(monotonic_s)
        self._sleeping: list[tuple[int, int, Lane]] = []
        """Heap of the lanes that cannot start anything before a record in them is due, by that time (epoch ms)."""

        self._sequence = count()
        self._ordering = ordering
        self._slots = slots
        self._lanes: dict[AssignedPartition, Lane] = {}
        self._source_queue: deque[Lane] = deque()
        self._redelivery_queue: deque[Lane] = deque()
        """Lanes of ready topics, whose records are redeliveries."""

        self._redeliveries_in_a_row = 0
        self._mean_call_s: float | None = None
        """Moving average of the duration of a handler call; ``None`` before the first call."""

        self._buffered = {False: Buffered(), True: Buffered()}
        """What is buffered, by whether it comes from ready topics."""

        self.waiting = 0
        """Number of records that wait for a slot."""

        self.held: AbstractSet[Partition] = frozenset()
        """The partitions of which no work item starts: the paused ones, and those of :meth:`HeldPartitions.waiting`."""

        # With ordering by partition, a lane has no second work item while one is on its way back, so items are longer.
        by_partition = ordering is Ordering.PARTITION
        self._target_item_s = min(_MAX_TARGET_ITEM_S, TARGET_ITEM_S * slots) if by_partition else TARGET_ITEM_S

    @property
    def max_queued(self) -> int:
        """How many work items may be queued behind those in the slots, so that no slot waits for the polling thread."""
        if self._mean_call_s is None or self._mean_call_s <= _MAX_QUEUED_S:
            return self._slots
        return int(self._slots * _MAX_QUEUED_S / self._mean_call_s)

    @property
    def ready(self) -> bool:
        """Whether a lane is enqueued, so that a work item may start as soon as a slot is free."""
        return bool(self._redelivery_queue or self._source_queue)

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until a record that waits in place or is early is due, but at most ``max_s``."""
        max_s = self._early.due_in_s(max_s)
        while self._sleeping and self._sleeping[0][2].closed:
            heappop(self._sleeping)
        if not self._sleeping:
            return max_s
        return min(max_s, max(0.0, (self._sleeping[0][0] - self.clock()) / 1000))

    def check_clock(self) -> int:
        """Shorten waits in place if the wall clock was set back, so that they take no longer than without that.

        Returns:
            By how many milliseconds it was set back since the last call; usually 0.
        """
        now_ms = self.clock()
        set_back_ms = self._clock_watch.set_back_ms(now_ms)
        if set_back_ms:
            self._sleeping.clear()
            for lane in self._lanes.values():
                lane.clock_set_back(self._clock_watch.difference_ms(now_ms))
                lane.wakes_ms = None
                self._set_wake_up(lane)
        return set_back_ms

    def records_within(self, seconds: float) -> int:
        """Estimate how many records the slots can handle in that time, plus two per slot."""
        base = 2 * self._slots
        return base if self._mean_call_s is None else base + int(self._slots * seconds / max(self._mean_call_s, 1e-6))

    def buffered(self, *, redelivered: bool) -> Buffered:
        """Return what is buffered of the ready topics or of the source topics."""
        return self._buffered[redelivered]

    def all(self) -> Iterable[tuple[Partition, Lane]]:
        """Return all partitions with their lanes."""
        return ((assigned.partition, lane) for assigned, lane in self._lanes.items())

    def open(self, assigned: AssignedPartition) -> None:
        """Create the lane of a partition."""
        kind = KeyedLane if self._ordering is Ordering.KEY else Lane
        self._lanes[assigned] = lane = kind(assigned, exclusive=self._ordering is Ordering.PARTITION)
        for offset in assigned.progress.waiting:
            lane.note_wait(offset, self._clock_watch.difference_ms(self.clock()))

    def hold(self, partitions: AbstractSet[Partition]) -> None:
        """Start no more work items of these partitions, and again those of all others."""
        self.held = partitions
        for assigned, lane in self._lanes.items():
            held = assigned.partition in partitions
            if lane.held != held:
                lane.held = held
                self._enqueue_if_startable(lane)
                self._set_wake_up(lane)

    def add(self, assigned: AssignedPartition, messages: list[Message]) -> None:
        """Add fetched records of one partition, in the order of their offsets."""
        lane = self._lanes[assigned]
        self._buffer(lane, messages)
        self._add(lane, self._early.hold(lane, messages) if assigned.redelivered else messages)

    def _add(self, lane: Lane, messages: list[Message]) -> None:
        if self.persist_deliveries:
            lane.unpersisted.extend(messages)
        else:
            lane.add(messages)
            self.waiting += len(messages)
        self._enqueue_if_startable(lane)
        self._set_wake_up(lane)

    def admit(self, assigned: AssignedPartition, end: int) -> None:
        """Let the records below the offset ``end`` be handed out: a commit has persisted their delivery."""
        lane = self._lanes.get(assigned)
        if lane is None:
            return
        unpersisted = lane.unpersisted
        if unpersisted and unpersisted[-1].offset() < end:
            admitted = list(unpersisted)
            unpersisted.clear()
        else:
            admitted = []
            while unpersisted and unpersisted[0].offset() < end:
                admitted.append(unpersisted.popleft())
        lane.add(admitted)
        self.waiting += len(admitted)
        self._enqueue_if_startable(lane)
        self._set_wake_up(lane)

    def requeue(self, assigned: AssignedPartition, message: Message) -> None:
        """Put a record that waits in place back into its lane, after its work item was put back."""
        lane = self._lanes.get(assigned)
        if lane is None:
            return
        if message.offset() < assigned.progress.suspect_end:
            lane.unpersisted.appendleft(message)
        else:
            lane.requeue(message)
            self.waiting += 1
        self._buffer(lane, (message,))
        lane.note_wait(message.offset(), self._clock_watch.difference_ms(self.clock()))
        self._enqueue_if_startable(lane)

    def next_item(self) -> WorkItem | None:
        """Return the next work item, or ``None`` if no lane may start one."""
        if self._early:
            for lane, messages in self._early.take_due():
                self._add(lane, messages)
        if self._sleeping:
            self._wake_up(self.clock())
        while queue := self._next_queue():
            lane = queue.popleft()
            lane.enqueued = False
            if lane.held:
                continue
            messages = lane.take(self._item_size(lane), self.clock() if lane.assigned.progress.waiting else 0)
            if messages:  # empty if the partition was closed, or if all records wait for their keys
                self._redeliveries_in_a_row = self._redeliveries_in_a_row + 1 if queue is self._redelivery_queue else 0
                self.waiting -= len(messages)
                return self._start(lane, messages)
            self._set_wake_up(lane)
        return None

    def start_isolated(self, assigned: AssignedPartition) -> WorkItem | None:
        """Return an item with the first unpersisted record of a partition only, ``None`` if there is none any more."""
        lane = self._lanes.get(assigned)
        return self._start(lane, [lane.take_unpersisted()]) if lane is not None and lane.unpersisted else None

    def remove_unpersisted(self, lane: Lane) -> Message:
        """Remove the first unpersisted record from the buffer without handing it out."""
        message = lane.unpersisted.popleft()
        self._unbuffer(lane, (message,))
        return message

    def _start(self, lane: Lane, messages: list[Message]) -> WorkItem:
        lane.in_flight += 1
        self._enqueue_if_startable(lane)
        self._set_wake_up(lane)
        in_place = lane.assigned.progress.waiting
        return WorkItem(lane, messages, in_place=in_place.get(messages[0].offset()) if in_place else None)

    def _wake_up(self, now_ms: int) -> None:
        """Enqueue the lanes in which a record that waits in place is due."""
        while self._sleeping and self._sleeping[0][0] <= now_ms:
            lane = heappop(self._sleeping)[2]
            lane.wakes_ms = None
            if not (lane.closed or lane.held):
                self._enqueue(lane)

    def _next_queue(self) -> deque[Lane]:
        """Return the queue to take from: redeliveries, since they have a due time, but at most three in a row."""
        if self._redelivery_queue and not (
            self._source_queue and self._redeliveries_in_a_row >= MAX_REDELIVERIES_IN_A_ROW
        ):
            return self._redelivery_queue
        return self._source_queue

    def _item_size(self, lane: Lane) -> int:
        if self._mean_call_s is None:
            return 1
        size = min(MAX_RECORDS_PER_ITEM, int(self._target_item_s / max(self._mean_call_s, 1e-6)))
        if not lane.exclusive:
            # If few records wait, each slot gets a share.
            size = min(size, self.waiting // (2 * self._slots))
        return max(1, size)

    def put_back(self, item: WorkItem) -> None:
        """Take a work item back. Its records without an outcome come before all others of the lane."""
        self._update_mean(item.seconds)
        lane = item.lane
        lane.in_flight -= 1
        done = item.messages if lane.closed else item.messages[: item.position]
        item.bytes = self._unbuffer(lane, done)
        if not lane.closed:
            before = lane.waiting
            lane.put_back(item.messages, item.position)
            self.waiting += lane.waiting - before
            self._enqueue_if_startable(lane)

    def split(self, item: WorkItem, limit_s: float) -> WorkItem | None:
        """Split a work item whose current record was started before ``limit_s`` (monotonic).

        The slot keeps that record only. The records behind it go back to the lane.

        Returns:
            An item with the records that have their outcome, ready to be written; ``None`` if nothing was split.
        """
        lane = item.lane
        split = None if lane.closed else item.split(limit_s)
        if split is None:
            return None
        done, rest = split
        self._update_mean(done.seconds)
        done.bytes = self._unbuffer(lane, done.messages)
        lane.split(done.messages, item.messages[item.taken], rest)
        self.waiting += len(rest)
        self._enqueue_if_startable(lane)
        return done

    def _update_mean(self, seconds: list[float]) -> None:
        if seconds:
            mean_s = sum(seconds) / len(seconds)
            before_s = self._mean_call_s
            self._mean_call_s = mean_s if before_s is None else before_s + _SMOOTHING * (mean_s - before_s)

    def close(self, assigned: AssignedPartition) -> None:
        """Remove the lane of a partition and the records that wait in it."""
        lane = self._lanes.pop(assigned, None)
        if lane is not None:
            lane.closed = True
            self.waiting -= lane.waiting
            self._unbuffer(lane, [*lane.clear(), *self._early.remove(lane)])

    def retain(self, lane: Lane, message: Message) -> None:
        """Count an unacknowledged record as buffered although its work item was put back."""
        self._buffer(lane, (message,))

    def release(self, lane: Lane, message: Message) -> None:
        """Stop counting a record that :meth:`retain` counted."""
        self._unbuffer(lane, (message,))

    def _buffer(self, lane: Lane, messages: Sequence[Message]) -> None:
        self._buffered[lane.assigned.redelivered].count(len(messages), lane.buffer(messages))

    def _unbuffer(self, lane: Lane, messages: Sequence[Message]) -> int:
        size = lane.unbuffer(messages)
        self._buffered[lane.assigned.redelivered].count(-len(messages), -size)
        return size

    def _enqueue_if_startable(self, lane: Lane) -> None:
        if not lane.enqueued and lane.may_start and not lane.held:
            self._enqueue(lane)

    def _enqueue(self, lane: Lane) -> None:
        if not lane.enqueued:
            lane.enqueued = True
            (self._redelivery_queue if lane.assigned.redelivered else self._source_queue).append(lane)

    def _set_wake_up(self, lane: Lane) -> None:
        """Enqueue a lane when its first record that waits in place is due, unless it is enqueued or held now."""
        due_ms = None if lane.enqueued or lane.held else lane.due_ms
        if due_ms is not None and (lane.wakes_ms is None or due_ms < lane.wakes_ms):
            lane.wakes_ms = due_ms
            heappush(self._sleeping, (due_ms, next(self._sequence), lane))
