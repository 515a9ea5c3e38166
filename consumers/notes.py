"""Delivery counts persisted before delivery: what may be handed out, because a commit has noted it.

Before a record is handed out, a commit says in its metadata that everything up to it may be in a handler
(:class:`topology.progress_metadata.HandedOut`). On a busy worker that is the commit of the outcomes before. The
commit of its own outcome takes the note back.

Whoever finds the note of another process knows that this one has died, and not of what. So it counts nothing, and
hands out those records one by one, each noted alone with its count, while nothing else of this worker is in a handler.
If it dies of that one, the count is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from consumers.lane import Lane
from consumers.lanes import Lanes
from consumers.unit import Assigned, Unit
from transport.protocols import Message

AHEAD_S = 0.5
"""So much work is noted ahead: enough for several writes, and little enough to be done again one by one."""


class Notes:
    """Owned by the polling thread. Does nothing where the lanes do not wait for notes."""

    def __init__(
        self,
        lanes: Lanes,
        deliveries: Callable[[Assigned, Message], int],
        most: int,
    ) -> None:
        """Nothing is noted.

        Args:
            lanes: where the records wait.
            deliveries: tells how many were made of a record.
            most: so many records of a partition are noted ahead.
        """
        self._lanes = lanes
        self._deliveries = deliveries
        self._most = most
        self._pending: dict[Assigned, int] = {}
        """What the write under way notes: up to where each partition may be handed out when it has ended."""

        self._alone: Assigned | None = None
        self._may_begin = False

    @property
    def exclusive(self) -> bool:
        """Whether one record has the worker for itself: nothing else may be handed out."""
        return self._alone is not None

    def wanted(self, *, idle: bool, free_slots: int) -> bool:
        """Whether a write should begin for the sake of a note, though there is nothing else to write.

        Args:
            idle: nothing is in a slot, and nothing could be.
            free_slots: how many slots have nothing to do.
        """
        if not self._lanes.noting or self.exclusive:
            return False
        if self._suspect() is not None:
            return idle
        return free_slots > 0 and any(
            not (lane.may_start or (lane.exclusive and lane.under_way)) for lane in self._unsuspected()
        )

    def prepare(self, *, idle: bool) -> list[Assigned]:
        """Before a write begins: what it is to note.

        Args:
            idle: as of :meth:`wanted`.

        Returns:
            the partitions whose position the write has to commit for that.
        """
        self._pending = {}
        if not self._lanes.noting or self.exclusive:
            return []
        suspect = self._suspect()
        if suspect is not None:
            if idle:
                self._note_alone(suspect)
                return [suspect.assigned]
            return []  # nothing more is handed out until it is its turn
        ahead = min(self._most, self._lanes.doable(AHEAD_S))
        for lane in self._unsuspected():
            number = min(ahead - (lane.waiting - lane.blocked), len(lane.unnoted))
            if number > 0:
                end = lane.unnoted[number - 1].offset() + 1
                lane.assigned.progress.handed_end = end
                self._pending[lane.assigned] = end
        return list(self._pending)

    def confirmed(self) -> None:
        """The write under way has ended: what it notes may be handed out."""
        pending, self._pending = self._pending, {}
        for assigned, end in pending.items():
            if assigned is self._alone:
                self._may_begin = True
            else:
                self._lanes.release(assigned, end)

    def next_alone(self) -> Unit | None:
        """The record that is to have the worker for itself, once."""
        if self._alone is None or not self._may_begin:
            return None
        self._may_begin = False
        unit = self._lanes.alone(self._alone)
        if unit is None:
            self._alone = None
        return unit

    def returned(self, unit: Unit) -> None:
        """A unit is over."""
        if unit.lane.assigned is self._alone:
            self._alone = None

    def deaths(self) -> Iterator[tuple[Assigned, Message]]:
        """The records that killed a worker while they were alone, as they are met. They are in no lane any more."""
        if not self._lanes.noting:
            return
        for _, lane in list(self._lanes.all()):
            if _met_death(lane):
                progress = lane.assigned.progress
                died, progress.died = progress.died, None
                if lane.unnoted[0].offset() == died:
                    yield lane.assigned, self._lanes.pop_unnoted(lane)

    def leave(self, leaving: Iterable[Assigned]) -> None:
        """Partitions that are given back in order: nothing of them is in a handler any more, or what is, is void."""
        for assigned in leaving:
            if assigned.progress.take_note_back():
                assigned.dirty = True

    def forget(self, assigned: Assigned) -> None:
        """This partition is ours no more."""
        self._pending.pop(assigned, None)
        if assigned is self._alone:
            self._alone = None

    def drop(self) -> None:
        """Everything is begun anew from what is committed."""
        self._pending = {}
        self._alone = None

    def due_in_s(self, most_s: float) -> float:
        """How long until a suspect that waits in place is due; at most ``most_s``."""
        if not self._lanes.noting:
            return most_s
        now_ms = self._lanes.clock()
        dues = [due_ms for _, lane in self._lanes.all() if (due_ms := _due_ms(lane)) is not None]
        return min([most_s, *(max(0.0, (due_ms - now_ms) / 1000) for due_ms in dues)])

    def _suspect(self) -> Lane | None:
        """The first partition with a suspect that is due."""
        for _, lane in self._lanes.all():
            due_ms = _due_ms(lane)
            if due_ms is not None and due_ms <= self._lanes.clock() and not _met_death(lane):
                return lane
        return None

    def _unsuspected(self) -> Iterator[Lane]:
        return (lane for _, lane in self._lanes.all() if lane.unnoted and _due_ms(lane) is None)

    def _note_alone(self, lane: Lane) -> None:
        assigned, message = lane.assigned, lane.unnoted[0]
        offset = message.offset()
        assigned.progress.hand_out_alone(offset, self._deliveries(assigned, message))
        self._alone, self._may_begin = assigned, False
        self._pending[assigned] = offset + 1


def _met_death(lane: Lane) -> bool:
    """Whether the record that a worker died of is the next one, or would have been."""
    died = lane.assigned.progress.died
    return died is not None and bool(lane.unnoted) and lane.unnoted[0].offset() >= died


def _due_ms(lane: Lane) -> int | None:
    """When the next suspect of a partition may be handed out (epoch ms); ``None`` if it has none."""
    progress = lane.assigned.progress
    if not lane.unnoted:
        return None
    offset = lane.unnoted[0].offset()
    if offset >= progress.suspect_end:
        return None
    in_place = progress.waiting.get(offset)
    return 0 if in_place is None else in_place.due_ms
