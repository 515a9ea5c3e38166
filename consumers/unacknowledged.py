"""What handlers have left unacknowledged, as the polling thread sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice, takewhile

from consumers.batch import Batch
from consumers.clock import monotonic_s
from consumers.lanes import Lanes
from consumers.session import RECOVERED, Delivered, Said, Sessions
from consumers.unit import Assigned, Unit
from topology.decision import Failure, FailureKind
from topology.lineage import Lineage
from transport.protocols import Message

_log = logging.getLogger(__name__)

_LOOK_S = 0.02
"""So long a word of a thread that is no slot waits to be heard; a wait for new records is not interrupted by it."""

LONG_S = 60.0
"""After so long without an acknowledgement somebody should know."""


class Unacknowledged:
    """Owned by the polling thread. Empty in the modes that acknowledge by themselves."""

    def __init__(
        self,
        sessions: Sessions,
        lanes: Lanes,
        lineage: Callable[[Assigned, Message], Lineage],
        timeout_s: float | None = None,
    ) -> None:
        """Nothing is.

        Args:
            sessions: of all slots.
            lanes: where these records count as held, so that they are bounded as all others.
            lineage: of a record as it was delivered.
            timeout_s: unacknowledged for so long, a record has failed; ``None`` = it may be so for ever.
        """
        self._sessions = sessions
        self._lanes = lanes
        self._lineage = lineage
        self._timeout_s = timeout_s
        self._kept: dict[Delivered, None] = {}
        self._warned_s = 0.0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def look_s(self, most_s: float) -> float:
        """How long nobody needs to listen; at most ``most_s``."""
        return min(most_s, _LOOK_S) if self._kept else most_s

    def keep(self, unit: Unit) -> None:
        """Take over what a unit left unacknowledged, after its batch has taken over the rest."""
        if not unit.unacknowledged:
            return
        now, failed = monotonic_s(), {index for index, _ in unit.failures}
        for index, delivered in unit.unacknowledged:
            if index in failed:  # what it emitted cannot be written
                self._end(delivered)
            elif not delivered.over:
                delivered.kept_s = now
                self._kept[delivered] = None
                self._lanes.keep(delivered.lane, delivered.message)

    def void(self, unit: Unit) -> None:
        """A unit came back that nobody waits for: what is not kept of it is over."""
        for _, delivered in unit.unacknowledged:
            if not delivered.kept_s:
                self._end(delivered)

    def forget(self, assigned: Assigned) -> None:
        """Close the records of a partition that is ours no more, or begun anew."""
        for delivered in [each for each in self._kept if each.lane.assigned is assigned]:
            self._end(delivered)
        self._sessions.forget(assigned)

    def hear(self, batch: Batch) -> None:
        """Put into a batch what was said since, and what nobody spoke of in time."""
        early = []
        for delivered in self._sessions.heard():
            assigned, message = delivered.lane.assigned, delivered.message
            if delivered.over or assigned.closed:
                continue
            if delivered not in self._kept:
                early.append(delivered)  # its unit is on its way back, with what the handler emitted
                continue
            self._end(delivered)
            lineage = self._lineage(assigned, message)
            if delivered.said is Said.ACKNOWLEDGED:
                batch.acknowledge(assigned, message, lineage, delivered.copies)
            else:
                batch.settle(assigned, message, lineage, RECOVERED)
        for delivered in early:
            self._sessions.told.put(delivered)
        if self._kept:
            self._watch(batch, monotonic_s())

    def _watch(self, batch: Batch, now: float) -> None:
        if self._timeout_s is not None:
            self._give_up(batch, now - self._timeout_s)
        waits_s = now - min((each.kept_s for each in islice(self._kept, 1)), default=now)
        if waits_s >= LONG_S and now - self._warned_s >= LONG_S:
            self._warned_s = now
            _log.warning(
                "%d records are unacknowledged, the first of them for %.0f s; nothing more is fetched when they fill "
                "the buffer (limits.bufferRecords)",
                len(self._kept),
                waits_s,
            )

    def _give_up(self, batch: Batch, limit_s: float) -> None:
        """Those that wait since before ``limit_s`` (monotonic) have failed."""
        why = f"not acknowledged within {self._timeout_s:g} s"
        for delivered in list(takewhile(lambda each: each.kept_s <= limit_s, self._kept)):
            if not self._sessions.drop(delivered):
                continue  # somebody spoke of it just now, and is heard next time
            self._end(delivered)
            assigned, message = delivered.lane.assigned, delivered.message
            failure = Failure(FailureKind.DEADLINE, "NotAcknowledged", why)
            batch.settle(assigned, message, self._lineage(assigned, message), failure)

    def _end(self, delivered: Delivered) -> None:
        delivered.over = True
        self._sessions.drop(delivered)
        if delivered in self._kept:
            del self._kept[delivered]
            self._lanes.let_go(delivered.lane, delivered.message)
