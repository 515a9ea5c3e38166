"""Delivery notes: persist deliveries before they are made, for ``persistDeliveryCountBeforeDelivery``.

Before a record is handed out, a commit contains a note (:class:`DeliveryNote`) which says that every record up to it
may be in a handler. A busy worker adds the note to the commit of earlier outcomes. The commit of the record's own
outcome withdraws it.

A worker that finds the note of another process knows that this process died, but not which record killed it. The
records that the note covers are suspects. Their delivery is not counted. The worker handles them in isolation: one at
a time, with no other record in its handlers, after a commit has persisted the delivery count of this one record. If
the worker then dies, the record has killed it, and the persisted count includes the delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from kafka_redelivery.consumers.clock import Clock, monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Message

KILLED_WORKER = Failure(
    FailureKind.CLOSED, "ClientDied", "the worker died while this record, and nothing else, was handled"
)

AHEAD_S = 0.5
"""Duration of the work that a note covers ahead: several writes, yet few suspects if the worker dies."""


class NotedLanes(Lanes):
    """Lanes that hand no record out before a commit has persisted its delivery. Only the polling thread uses it."""

    def __init__(
        self,
        ordering: Ordering,
        slots: int,
        max_ahead: int,
        *,
        author: int | None = None,
        max_in_place: int = 0,
        filling: BatchFilling | None = None,
        clock: Clock = wall_clock_ms,
        monotonic_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Start without lanes and notes.

        Args:
            ordering: which order of records is kept.
            slots: how many work items are handled concurrently.
            max_ahead: how many records of a partition a note may cover before they are handed out.
            author: see :class:`Lanes`.
            max_in_place: see :class:`Lanes`.
            filling: see :class:`Lanes`. A note covers at least a batch.
            clock: see :class:`Lanes`.
            monotonic_s: see :class:`Lanes`.
        """
        super().__init__(
            ordering,
            slots,
            in_order=True,
            max_in_place=max_in_place,
            filling=filling,
            clock=clock,
            monotonic_s=monotonic_s,
        )
        self.author = author
        self._max_ahead = max_ahead
        self._min_ahead = 0 if filling is None else filling.records
        self._pending: dict[AssignedPartition, int] = {}
        """For each partition the end of the note in the write in progress."""

        self._isolated: AssignedPartition | None = None
        """The partition whose first unpersisted record is isolated. A partition that is closed ends that."""

        self._isolated_may_start = False
        self._withdrawing = False
        """Whether the isolation ends with the next write, because the partition was held before the delivery."""

    @property
    def isolating(self) -> bool:
        """Whether a suspect is isolated, so that no other record may be handed out."""
        return self._isolated is not None and not self._isolated.closed

    @property
    def withdrawing(self) -> bool:
        """Whether a suspect is isolated that is not delivered, so that a commit has to withdraw its note."""
        return self.isolating and self._withdrawing

    @property
    def lack_note(self) -> bool:
        """Whether a slot that is free could handle a record after a note."""
        return any(
            not (lane.may_start or (lane.exclusive and lane.in_flight)) for lane in self._lanes_without_suspects()
        )

    def forget_notes(self) -> None:
        """The write that is about to begin has no notes yet."""
        self._pending = {}

    def end_isolation(self) -> list[AssignedPartition]:
        """Withdraw the note of an isolated suspect that was not delivered; return what the write must commit."""
        if self._isolated is None or not self.withdrawing:
            return []
        self._isolated.progress.withdraw_note()
        self._pending[self._isolated] = 0
        return [self._isolated]

    def note_ahead(self) -> list[AssignedPartition]:
        """Write the notes of records without suspicion; return what the write must commit."""
        ahead = max(self._min_ahead, min(self._max_ahead, self.records_within(AHEAD_S)))
        for lane in self._lanes_without_suspects():
            number = min(ahead - (lane.waiting - lane.blocked), len(lane.unpersisted))
            if number > 0:
                end = lane.unpersisted[number - 1].offset() + 1
                lane.assigned.progress.note_end = end
                self._pending[lane.assigned] = end
        return list(self._pending)

    def confirm(self) -> None:
        """See :meth:`DeliveryNotes.confirm`."""
        pending, self._pending = self._pending, {}
        for assigned, end in pending.items():
            if assigned is self._isolated and self._withdrawing:
                self._end_isolation()
            elif assigned is self._isolated:
                self._isolated_may_start = True
            else:
                self.admit(assigned, end)

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
        super()._admit(lane, admitted)

    def _admit(self, lane: Lane, messages: list[Message]) -> None:
        lane.unpersisted.extend(messages)  # until a commit has persisted their delivery

    def _put_first(self, lane: Lane, message: Message) -> None:
        if message.offset() < lane.assigned.progress.suspect_end:
            lane.unpersisted.appendleft(message)
        else:
            super()._put_first(lane, message)

    def bar(self, barred: bool) -> None:  # noqa: FBT001 - it is the new state
        """See :class:`Lanes`. An isolated suspect is not in a handler: it keeps no others waiting, uncounted."""
        super().bar(barred)
        if barred and self._isolated_may_start:
            self._isolated_may_start, self._withdrawing = False, True

    def next_item(self) -> WorkItem | None:
        """See :class:`Lanes`. While a record is isolated, its item once, after its delivery is persisted."""
        if self._isolated is None or self._isolated.closed:
            return super().next_item()
        if not self._isolated_may_start:
            return None
        self._isolated_may_start = False
        if self._isolated.partition in self.held:
            self._withdrawing = True
            return None
        lane = self._lanes.get(self._isolated)
        if lane is None or not lane.unpersisted:
            self._end_isolation()
            return None
        return self._start(lane, [lane.take_unpersisted()])

    def put_back(self, item: WorkItem) -> None:
        """See :class:`Lanes`. The isolation ends with its item; with a write if a hold has prevented the delivery."""
        if item.lane.assigned is self._isolated:
            if item.position or item.lane.closed:
                self._end_isolation()
            else:
                item.lane.unpersisted.appendleft(item.messages.pop())
                self._withdrawing = True
        super().put_back(item)

    def _end_isolation(self) -> None:
        self._isolated, self._withdrawing = None, False

    def take_fatal_records(self) -> Iterator[tuple[AssignedPartition, Message]]:
        """See :meth:`DeliveryNotes.take_fatal_records`."""
        for lane in list(self._lanes.values()):
            if _reached_fatal_record(lane):
                progress = lane.assigned.progress
                fatal_offset, progress.fatal_offset = progress.fatal_offset, None
                if lane.unpersisted[0].offset() == fatal_offset:
                    message = lane.unpersisted.popleft()
                    lane.unbuffer((message,))
                    yield lane.assigned, message

    def due_in_s(self, max_s: float) -> float:
        """See :class:`Lanes`. A suspect that waits in place is in no queue."""
        max_s, now_ms = super().due_in_s(max_s), self.clock()
        due_times = [due_ms for lane in self._running() if (due_ms := _suspect_due_ms(lane)) is not None]
        return min([max_s, *(max(0.0, (due_ms - now_ms) / 1000) for due_ms in due_times)])

    def due_suspect(self) -> Lane | None:
        """Return the first lane with a suspect that is due, if one may be handed out."""
        for lane in () if self.barred else self._running():
            due_ms = _suspect_due_ms(lane)
            if due_ms is not None and due_ms <= self.clock() and not _reached_fatal_record(lane):
                return lane
        return None

    def _lanes_without_suspects(self) -> Iterator[Lane]:
        return (lane for lane in self._running() if lane.unpersisted and _suspect_due_ms(lane) is None)

    def _running(self) -> Iterator[Lane]:
        """Yield the lanes that are not held."""
        return (lane for lane in self._lanes.values() if not lane.held)

    def isolate(self, lane: Lane) -> list[AssignedPartition]:
        """Isolate the due suspect of a lane; return what the write must commit."""
        assigned, message = lane.assigned, lane.unpersisted[0]
        offset = message.offset()
        assigned.progress.isolate(offset, lineage_of(assigned, message).deliveries)
        self._isolated, self._isolated_may_start, self._withdrawing = assigned, False, False
        self._pending[assigned] = offset + 1
        return [assigned]


class DeliveryNotes:
    """The delivery notes of all handlers of a worker that persist deliveries. Only the polling thread uses it.

    While a suspect is isolated, no other record is in any handler.
    """

    def __init__(self, lanes: Sequence[NotedLanes]) -> None:
        """Start without notes; ``lanes``: of each such handler."""
        self._lanes = lanes

    @property
    def isolating(self) -> bool:
        """Whether a suspect is isolated."""
        return any(lanes.isolating for lanes in self._lanes)

    def suspend(self, lanes: Lanes) -> bool:
        """Whether a handler may be given no record, because a suspect of another one is isolated or has to be."""
        if self.isolating:
            return not (isinstance(lanes, NotedLanes) and lanes.isolating)
        return lanes not in self._lanes and self._due_suspect() is not None

    def need_commit(self, *, idle: bool, free: Collection[Lanes]) -> bool:
        """Whether a write should begin only for a note.

        Args:
            idle: whether no record is in a slot and none could start.
            free: the lanes of the handlers that have a slot without a work item.
        """
        if self.isolating:
            return any(lanes.withdrawing for lanes in self._lanes)
        if self._due_suspect() is not None:
            return idle
        return any(lanes in free and lanes.lack_note for lanes in self._lanes)

    def prepare(self, *, idle: bool) -> list[AssignedPartition]:
        """Write the notes for the commit that is about to begin.

        Returns:
            The partitions whose progress the write must commit.
        """
        for lanes in self._lanes:
            lanes.forget_notes()
        if self.isolating:
            return [assigned for lanes in self._lanes for assigned in lanes.end_isolation()]
        due = self._due_suspect()
        if due is not None:
            lanes, suspect = due
            return lanes.isolate(suspect) if idle else []  # hand out nothing more until the suspect can be isolated
        return [assigned for lanes in self._lanes for assigned in lanes.note_ahead()]

    def confirm(self) -> None:
        """Let the records be handed out whose note the ended write has committed."""
        for lanes in self._lanes:
            lanes.confirm()

    def take_fatal_records(self) -> Iterator[tuple[AssignedPartition, Message]]:
        """Yield the fetched records that killed a worker while they were isolated, and remove them from their lanes."""
        return chain.from_iterable(lanes.take_fatal_records() for lanes in self._lanes)

    def withdraw(self, leaving: Iterable[AssignedPartition]) -> None:
        """Withdraw the notes of partitions that are given back: none of their records is in a handler now."""
        for assigned in leaving:
            if assigned.progress.withdraw_note():
                assigned.dirty = True

    def _due_suspect(self) -> tuple[NotedLanes, Lane] | None:
        found = ((lanes, lanes.due_suspect()) for lanes in self._lanes)
        return next(((lanes, lane) for lanes, lane in found if lane is not None), None)


def _reached_fatal_record(lane: Lane) -> bool:
    """Whether the record that killed a worker is the next unpersisted one, or is missing before it."""
    fatal_offset = lane.assigned.progress.fatal_offset
    return fatal_offset is not None and bool(lane.unpersisted) and lane.unpersisted[0].offset() >= fatal_offset


def _suspect_due_ms(lane: Lane) -> int | None:
    """Return when the next suspect may be handed out (epoch ms, 0 = now); ``None`` if the lane has none."""
    progress = lane.assigned.progress
    if not lane.unpersisted:
        return None
    offset = lane.unpersisted[0].offset()
    if offset >= progress.suspect_end:
        return None
    in_place = progress.waiting.get(offset)
    return 0 if in_place is None else in_place.due_ms
