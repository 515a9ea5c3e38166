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

from collections.abc import Iterable, Iterator

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Message

KILLED_WORKER = Failure(
    FailureKind.CLOSED, "ClientDied", "the worker died while this record, and nothing else, was handled"
)

AHEAD_S = 0.5
"""Duration of the work that a note covers ahead: several writes, yet few suspects if the worker dies."""


class DeliveryNotes:
    """Writes and withdraws delivery notes. Only the polling thread uses it.

    Does nothing unless the lanes persist deliveries.
    """

    def __init__(self, lanes: Lanes, max_ahead: int) -> None:
        """Start without notes.

        Args:
            lanes: the buffered records.
            max_ahead: how many records of a partition a note may cover before they are handed out.
        """
        self._lanes = lanes
        self._max_ahead = max_ahead
        self._pending: dict[AssignedPartition, int] = {}
        """For each partition the end of the note in the write in progress."""

        self._isolated: AssignedPartition | None = None
        """The partition whose first unpersisted record is isolated."""

        self._isolated_may_start = False
        self._withdrawing = False
        """Whether the isolation ends with the next write, because the partition was held before the delivery."""

    @property
    def isolating(self) -> bool:
        """Whether a suspect is isolated, so that no other record may be handed out."""
        return self._isolated is not None

    def need_commit(self, *, idle: bool, free_slots: int) -> bool:
        """Whether a write should begin only for a note.

        Args:
            idle: whether no record is in a slot and none could start.
            free_slots: number of slots without a work item.
        """
        if not self._lanes.persist_deliveries or self.isolating:
            return self._withdrawing
        if self._due_suspect() is not None:
            return idle
        return free_slots > 0 and any(
            not (lane.may_start or (lane.exclusive and lane.in_flight)) for lane in self._lanes_without_suspects()
        )

    def prepare(self, *, idle: bool) -> list[AssignedPartition]:
        """Write the notes for the commit that is about to begin.

        Args:
            idle: as in :meth:`need_commit`.

        Returns:
            The partitions whose progress the write must commit.
        """
        self._pending = {}
        if self._isolated is not None and self._withdrawing:
            self._isolated.progress.withdraw_note()
            self._pending[self._isolated] = 0
            return [self._isolated]
        if not self._lanes.persist_deliveries or self.isolating:
            return []
        suspect = self._due_suspect()
        if suspect is not None:
            if idle:
                self._isolate(suspect)
                return [suspect.assigned]
            return []  # hand out nothing more until the suspect can be isolated
        ahead = min(self._max_ahead, self._lanes.records_within(AHEAD_S))
        for lane in self._lanes_without_suspects():
            number = min(ahead - (lane.waiting - lane.blocked), len(lane.unpersisted))
            if number > 0:
                end = lane.unpersisted[number - 1].offset() + 1
                lane.assigned.progress.note_end = end
                self._pending[lane.assigned] = end
        return list(self._pending)

    def confirm(self) -> None:
        """Let the records be handed out whose note the ended write has committed."""
        pending, self._pending = self._pending, {}
        for assigned, end in pending.items():
            if assigned is self._isolated and self._withdrawing:
                self._end_isolation()
            elif assigned is self._isolated:
                self._isolated_may_start = True
            else:
                self._lanes.admit(assigned, end)

    def next_isolated(self) -> WorkItem | None:
        """Return the work item of the isolated record once; ``None`` before its delivery is persisted and after."""
        if self._isolated is None or not self._isolated_may_start:
            return None
        self._isolated_may_start = False
        if self._isolated.partition in self._lanes.held:
            self._withdrawing = True
            return None
        item = self._lanes.start_isolated(self._isolated)
        if item is None:
            self._end_isolation()
        return item

    def item_returned(self, item: WorkItem) -> None:
        """End the isolation if this is the isolated work item; with a write if a hold has prevented the delivery."""
        if item.lane.assigned is not self._isolated:
            return
        if item.position or item.abandoned or item.lane.closed:
            self._end_isolation()
        else:
            item.lane.unpersisted.appendleft(item.messages.pop())
            self._withdrawing = True

    def _end_isolation(self) -> None:
        self._isolated, self._withdrawing = None, False

    def take_fatal_records(self) -> Iterator[tuple[AssignedPartition, Message]]:
        """Yield the fetched records that killed a worker while they were isolated, and remove them from their lanes."""
        if not self._lanes.persist_deliveries:
            return
        for _, lane in list(self._lanes.all()):
            if _reached_fatal_record(lane):
                progress = lane.assigned.progress
                fatal_offset, progress.fatal_offset = progress.fatal_offset, None
                if lane.unpersisted[0].offset() == fatal_offset:
                    yield lane.assigned, self._lanes.remove_unpersisted(lane)

    def withdraw(self, leaving: Iterable[AssignedPartition]) -> None:
        """Withdraw the notes of partitions that are given back: none of their records is in a handler now."""
        for assigned in leaving:
            if assigned.progress.withdraw_note():
                assigned.dirty = True

    def forget(self, assigned: AssignedPartition) -> None:
        """Drop the state of a partition that is no longer owned."""
        self._pending.pop(assigned, None)
        if assigned is self._isolated:
            self._end_isolation()

    def reset(self) -> None:
        """Drop all state, before the worker starts again from the committed offsets."""
        self._pending = {}
        self._end_isolation()

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until a suspect that waits in place is due, but at most ``max_s``."""
        if not self._lanes.persist_deliveries:
            return max_s
        now_ms = self._lanes.clock()
        due_times = [due_ms for lane in self._running() if (due_ms := _suspect_due_ms(lane)) is not None]
        return min([max_s, *(max(0.0, (due_ms - now_ms) / 1000) for due_ms in due_times)])

    def _due_suspect(self) -> Lane | None:
        """Return the first lane with a suspect that is due."""
        for lane in self._running():
            due_ms = _suspect_due_ms(lane)
            if due_ms is not None and due_ms <= self._lanes.clock() and not _reached_fatal_record(lane):
                return lane
        return None

    def _lanes_without_suspects(self) -> Iterator[Lane]:
        return (lane for lane in self._running() if lane.unpersisted and _suspect_due_ms(lane) is None)

    def _running(self) -> Iterator[Lane]:
        """Yield the lanes that are not held."""
        return (lane for _, lane in self._lanes.all() if not lane.held)

    def _isolate(self, lane: Lane) -> None:
        assigned, message = lane.assigned, lane.unpersisted[0]
        offset = message.offset()
        assigned.progress.isolate(offset, lineage_of(assigned, message).deliveries)
        self._isolated, self._isolated_may_start = assigned, False
        self._pending[assigned] = offset + 1


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
