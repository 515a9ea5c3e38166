"""Which partitions take new records, so that what is held stays bounded and no partition fills the buffer alone."""

from __future__ import annotations

from consumers.lane import Held
from consumers.lanes import Lanes
from topology.settings import LimitsSection
from transport.protocols import Partition

_DUE_PART = 4
"""A quarter of the buffer is for redeliveries, which have a due time, and the rest for fresh records."""

_EAGER = 2
"""A partition may hold so many times what is free: alone two thirds, of eight each a ninth of what there is."""

_BATCH_BYTES = 16 * 2**20


def batch_bytes(limits: LimitsSection) -> int:
    """How many bytes make a batch full. Two of them exist at a time: one grows while one is written."""
    return min(_BATCH_BYTES, limits.buffer_bytes // 8)


class Room:
    """The buffer of a worker. Owned by the polling thread.

    Sources and ready topics have each their part of it, so neither can keep the other from being fetched.
    Within a part, a partition may hold twice as much as is still free. So one alone gets most of it, many
    share it, and there is always something left for one that has held nothing so far.

    Everything counts that was fetched and is not written yet. What is held exceeds the limits by one
    fetch at most: nothing is known of a record before it is fetched.
    """

    def __init__(self, limits: LimitsSection, lanes: Lanes) -> None:
        self._lanes = lanes
        due = Held(max(1, limits.buffer_records // _DUE_PART), limits.buffer_bytes // _DUE_PART)
        self._limits = {
            True: due,
            False: Held(max(1, limits.buffer_records - due.records), limits.buffer_bytes - due.bytes),
        }
        self._most = limits.batch_records
        self._stopped: dict[Partition, Held] = {}
        """What each held when it was stopped."""

    def next_fetch(self) -> int:
        """How many records may be fetched now: at least one, since only a fetch serves the client's membership."""
        room = max(self._limits[due].records - self._lanes.held(redelivered=due).records for due in (False, True))
        return max(1, min(room, self._most))

    def without(self, writing_bytes: int) -> set[Partition]:
        """The partitions that take no new records for now.

        What is stopped goes on when it holds half of what it held then, since each stop costs a new fetch.

        Args:
            writing_bytes: what the batches hold that are not written yet.
        """
        free = {due: self._free(writing_bytes, redelivered=due) for due in (False, True)}
        stopped = {}
        for place, lane in self._lanes.all():
            left, held = free[lane.assigned.redelivered], lane.held
            before = self._stopped.get(place)
            if held.records >= _EAGER * left.records or held.bytes >= _EAGER * left.bytes:
                stopped[place] = Held(held.records, held.bytes) if before is None else before
            elif before is not None and (held.records * 2 > before.records or held.bytes * 2 > before.bytes):
                stopped[place] = before
        self._stopped = stopped
        return set(stopped)

    def _free(self, writing_bytes: int, *, redelivered: bool) -> Held:
        limit, held = self._limits[redelivered], self._lanes.held(redelivered=redelivered)
        # Batches hold records of both kinds: each part bears as much of them as it is large.
        written = writing_bytes // _DUE_PART * (1 if redelivered else _DUE_PART - 1)
        return Held(limit.records - held.records, limit.bytes - held.bytes - written)
