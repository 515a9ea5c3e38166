"""Which records may be handled concurrently, and which work item starts next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import count

from kafka_redelivery.consumers.clock import Clock, ClockWatch, monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
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

_MAX_QUEUED_BATCHES = 8
"""Up to this many batches are queued for each slot of a fast batch handler: a batch has a fixed number of records."""

_SMOOTHING = 0.2
"""Weight of the latest work item in the moving average of call durations."""


class Lanes:
    """All buffered records of one handler, and the lanes that may start a work item. Only the polling thread uses it.

    Each partition has one lane. With ordering by partition, a lane has one work item in flight at a time. With
    ordering by key, it has any number of work items that have no key in common. Unordered, it has any number.

    For a batch handler a work item is a batch: it starts when its lane has enough records, or after a wait. A batch is
    of one lane, so it keeps the order of its partition, and its partition leaves the worker with the whole batch. After
    a call that decided about no record, its records are in work items that are no batches.
    """

    author: int | None = None
    """The number of this process if it persists deliveries before it makes them; see :class:`Progress`."""

    def __init__(
        self,
        ordering: Ordering,
        slots: int,
        *,
        in_order: bool = False,
        max_in_place: int = 0,
        filling: BatchFilling | None = None,
        clock: Clock = wall_clock_ms,
        monotonic_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Start without lanes.

        Args:
            ordering: which order of records is kept.
            slots: how many work items are handled concurrently.
            in_order: whether no record may overtake one of its partition that is early, whatever the order.
            max_in_place: how many records of a partition may wait in place, including one that is isolated.
            filling: makes batches of work items; ``None`` = each record is handled by itself.
            clock: compared with the due time of records that wait in place, and of redeliveries.
            monotonic_s: shows when that clock was set back.
        """
        self._filling = filling
        self._early = EarlyRecords(ordering, clock, in_order=in_order)
        self.max_in_place = max_in_place
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

        self.one_by_one = False
        """Whether each work item has one record, because few of them may be in flight."""

        self.barred = False
        """Whether no work item may start, because something is away that the handler depends on."""

        self.held: AbstractSet[Partition] = frozenset()
        """The partitions of which no work item starts: the paused ones, and those of :meth:`HeldPartitions.waiting`."""

        # With ordering by partition, a lane has no second work item while one is on its way back, so items are longer.
        by_partition = ordering is Ordering.PARTITION
        self._target_item_s = min(_MAX_TARGET_ITEM_S, TARGET_ITEM_S * slots) if by_partition else TARGET_ITEM_S

    def max_queued(self, slots: int) -> int:
        """Return how many work items to queue behind those in so many slots: no slot waits for the next turn."""
        mean_s = self._mean_call_s or 0.0
        if mean_s > _MAX_QUEUED_S:
            return min(slots, int(self._slots * _MAX_QUEUED_S / mean_s))
        if self._filling is None or not self._mean_call_s:
            return slots
        return slots * max(1, min(_MAX_QUEUED_BATCHES, int(self._target_item_s / mean_s)))

    @property
    def ready(self) -> bool:
        """Whether a lane is enqueued, so that a work item may start as soon as a slot is free."""
        return bool(self._redelivery_queue or self._source_queue)

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until a record that waits in place or is early is due, but at most ``max_s``."""
        if self._early.held:
            max_s = self._early.due_in_s(max_s)
        if self._filling is not None:
            max_s = self._filling.due_in_s(max_s)
        while self._sleeping and self._sleeping[0][2].closed:
            heappop(self._sleeping)
        if not self._sleeping:
            return max_s
        return min(max_s, max(0.0, (self._sleeping[0][0] - self.clock()) / 1000))

    def check_clock(self) -> None:
        """Shorten waits in place if the wall clock was set back, so that they take no longer than without that."""
        now_ms = self.clock()
        if self._clock_watch.was_set_back(now_ms):
            self._sleeping.clear()
            for lane in self._lanes.values():
                lane.clock_set_back(self._clock_watch.difference_ms(now_ms))
                lane.wakes_ms = None
                self._schedule(lane)

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
        buffered_in_all = self._buffered[assigned.redelivered]
        if self._ordering is Ordering.KEY:
            one_per_key = self._filling is not None and self._filling.one_per_key
            lane: Lane = KeyedLane(assigned, exclusive=False, buffered_in_all=buffered_in_all, one_per_key=one_per_key)
        else:
            exclusive = self._ordering is Ordering.PARTITION
            lane = Lane(assigned, exclusive=exclusive, buffered_in_all=buffered_in_all)
        self._lanes[assigned] = lane
        for offset in assigned.progress.waiting:
            lane.note_wait(offset, self._clock_watch.difference_ms(self.clock()))

    def bar(self, barred: bool) -> None:  # noqa: FBT001 - it is the new state
        """Start no work item until it is called with ``False``."""
        self.barred = barred

    def hold(self, partitions: AbstractSet[Partition]) -> None:
        """Start no more work items of these partitions, and again those of all others."""
        self.held = partitions
        for assigned, lane in self._lanes.items():
            held = assigned.partition in partitions
            if lane.held != held:
                lane.held = held
                self._schedule(lane)

    def add(self, assigned: AssignedPartition, messages: list[Message]) -> None:
        """Add fetched records of one partition, in the order of their offsets."""
        lane = self._lanes[assigned]
        lane.buffer(messages)
        self._admit(lane, self._early.hold(lane, messages) if assigned.redelivered else messages)

    def _admit(self, lane: Lane, messages: list[Message]) -> None:
        """Let records be handed out that are not early."""
        lane.add(messages)
        self.waiting += len(messages)
        self._schedule(lane)

    def requeue(self, assigned: AssignedPartition, message: Message) -> None:
        """Put a record that waits in place back into its lane, after its work item was put back."""
        lane = self._lanes.get(assigned)
        if lane is None:
            return
        self._put_first(lane, message)
        lane.buffer((message,))
        lane.note_wait(message.offset(), self._clock_watch.difference_ms(self.clock()))
        self._schedule(lane)

    def _put_first(self, lane: Lane, message: Message) -> None:
        lane.requeue(message)
        self.waiting += 1

    def next_item(self) -> WorkItem | None:
        """Return the next work item, or ``None`` if no lane may start one."""
        if self._early.held:
            for lane, messages in self._early.take_due():
                self._admit(lane, messages)
        if self._sleeping:
            self._wake_up(self.clock())
        if self._filling is not None:
            for lane in self._filling.take_over():
                self._schedule(lane)
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
            self._schedule(lane, start=False)
        return None

    def _start(self, lane: Lane, messages: list[Message]) -> WorkItem:
        lane.in_flight += 1
        in_place = lane.assigned.progress.waiting
        item = WorkItem(lane, messages, in_place=in_place.get(messages[0].offset()) if in_place else None)
        if self._filling is not None and item.in_place is None:
            item.batch = self._filling.taken(lane, messages)
        self._schedule(lane)
        return item

    def _wake_up(self, now_ms: int) -> None:
        """Enqueue the lanes in which a record that waits in place is due."""
        while self._sleeping and self._sleeping[0][0] <= now_ms:
            lane = heappop(self._sleeping)[2]
            lane.wakes_ms = None
            if not lane.closed:
                self._schedule(lane, start=True)

    def _next_queue(self) -> deque[Lane]:
        """Return the queue to take from: redeliveries, since they have a due time, but at most three in a row."""
        if self._redelivery_queue and not (
            self._source_queue and self._redeliveries_in_a_row >= MAX_REDELIVERIES_IN_A_ROW
        ):
            return self._redelivery_queue
        return self._source_queue

    def _item_size(self, lane: Lane) -> int:
        if self.one_by_one:
            return 1
        if self._filling is not None:
            return self._filling.records
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
        item.bytes = lane.unbuffer(done)
        if not lane.closed:
            before = lane.waiting
            if self._filling is not None and item.position < len(item.messages):
                self._filling.put_back(item, item.messages[item.position :])
            lane.put_back(item.messages, item.position)
            self.waiting += lane.waiting - before
            self._schedule(lane)

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
        if self._filling is not None:
            self._filling.put_back(item, rest)
        self._update_mean(done.seconds)
        done.bytes = lane.unbuffer(done.messages)
        lane.split(done.messages, item.messages[item.taken], rest)
        self.waiting += len(rest)
        self._schedule(lane)
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
            if self._filling is not None:
                self._filling.close(lane)
            self.waiting -= lane.waiting
            lane.unbuffer([*lane.clear(), *self._early.remove(lane)])

    def _schedule(self, lane: Lane, *, start: bool | None = None) -> None:
        """Enqueue a lane, now or when its first record that waits in place is due, unless it is enqueued or held.

        Args:
            lane: the lane.
            start: whether to enqueue it now; ``None`` = if it may start.
        """
        waits = self._filling is not None and self._filling.waits(lane)
        if lane.enqueued or lane.held:
            return
        if start or (start is None and lane.may_start and not waits):
            lane.enqueued = True
            (self._redelivery_queue if lane.assigned.redelivered else self._source_queue).append(lane)
        elif lane.assigned.progress.waiting:
            due_ms = lane.due_ms
            if due_ms is not None and (lane.wakes_ms is None or due_ms < lane.wakes_ms):
                lane.wakes_ms = due_ms
                heappush(self._sleeping, (due_ms, next(self._sequence), lane))
