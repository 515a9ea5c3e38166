"""What a worker fetches, and of which partitions: those that have room in the buffer and in their metadata."""

from __future__ import annotations

from consumers.assignment import Assignment
from consumers.lanes import Lanes
from consumers.room import Room
from topology.progress_metadata import HOLE_BITS
from topology.settings import LimitsSection
from transport.protocols import Message, Partition, Source


class Intake:
    """Owned by the polling thread."""

    def __init__(
        self, reader: Source, assignment: Assignment, lanes: Lanes, limits: LimitsSection, *, in_order: bool
    ) -> None:
        self._reader = reader
        self._assignment = assignment
        self._room = Room(limits, lanes)
        self._most = max(limits.batch_records, HOLE_BITS + 1)
        self._in_order = in_order
        self._paused: set[Partition] = set()
        self._crowded: set[Partition] = set()

    def fetch(self, writing_bytes: int, idle_s: float) -> list[Message]:
        """Fetch what there is room for.

        Args:
            writing_bytes: what the batches hold that are not written yet.
            idle_s: how long to wait for records.
        """
        stopped = self._room.without(writing_bytes) | self._assignment.halted | self._crowded
        if stopped != self._paused:
            self._reader.pause(stopped - self._paused)
            self._reader.resume(self._paused - stopped)
            self._paused = stopped
        return self._reader.fetch(self._room.next_fetch(), idle_s)

    def keep_within_metadata(self) -> None:
        """A partition whose finished records could not be noted any more takes no new ones for now."""
        if self._in_order and not (self._assignment.deferred or self._crowded):
            return  # what finishes in order needs no note
        self._crowded = {a.partition for a in self._assignment.all() if not a.progress.fits(self._most)}
        deferred, self._assignment.deferred = self._assignment.deferred, {}
        for place, offset in deferred.items():
            self._reader.seek(place, offset)
            self._crowded.add(place)

    def forget(self, place: Partition) -> None:
        """This partition is ours no more."""
        self._crowded.discard(place)
        self._paused.discard(place)
