"""The outage of something that handlers depend on, as one worker sees it: when it tries again, and with how many calls.

A dependency that is away is no fault of a record. So its outage holds records back instead of failing them:

=========  ==========================================================================================================
phase      how many records may be in flight
=========  ==========================================================================================================
closed     any number
open       none, until the pause is over; the pauses grow from ``first_pause_s`` to ``longest_pause_s``
half open  one. It closes the outage for others only if it had met the outage, since another record may never have
           called what is away
ramping    1, 2, 4 ...: twice as many from second to second, until ``full`` are reached. Then the outage is closed
=========  ==========================================================================================================

A failure while half open or ramping opens it again, and the pauses go on growing. They begin anew once it was closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafka_redelivery.topology.backoff import Backoff


class Phase(StrEnum):
    """How much of the load a dependency gets."""

    CLOSED = "closed"
    """All of it: there is no outage."""

    OPEN = "open"
    HALF_OPEN = "half open"
    RAMPING = "ramping"


@dataclass(frozen=True, slots=True)
class Outage:
    """The outage of one dependency. Times are monotonic seconds; ``jitter`` is a draw from [0, 1).

    Each transition returns another object. Its phase depends on the time: see :meth:`phase`.
    """

    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=5.0, longest_s=60.0))
    """The pauses. Its ``due_s`` is when the next try begins."""

    step_s: float = 1.0
    """How long the ramp stays at each step."""

    opened_s: float | None = None
    """When the outage opened; ``None`` = it is closed."""

    answered_s: float | None = None
    """When the ramp began; ``None`` = what is away has not answered since the outage opened."""

    def phase(self, now_s: float, full: int) -> Phase:
        """Return the phase at a time. ``full``: how many records are in flight at most without an outage."""
        if self.opened_s is None:
            return Phase.CLOSED
        if self.answered_s is not None:
            return Phase.CLOSED if self._ramped(now_s) >= full else Phase.RAMPING
        return Phase.HALF_OPEN if self.backoff.is_due(now_s) else Phase.OPEN

    def limit(self, now_s: float, full: int) -> int:
        """Return how many records may be in flight, at most ``full``."""
        if self.opened_s is None:
            return full
        if self.answered_s is not None:
            return min(full, self._ramped(now_s))
        return 1 if self.backoff.is_due(now_s) else 0

    def _ramped(self, now_s: float) -> int:
        steps = 0 if self.answered_s is None else int(max(0.0, now_s - self.answered_s) / self.step_s)
        return 1 << min(steps, 62)

    def failed(self, now_s: float, jitter: float, *, began_s: float) -> Outage:
        """Return the outage after a call that met it.

        Args:
            now_s: now.
            jitter: shortens the pause by up to a tenth, so that workers do not try at the same time.
            began_s: when the call began. Calls that began before the outage opened, or before its last pause, say
                nothing new.
        """
        if self.opened_s is not None and began_s < self.backoff.due_s:
            return self
        backoff = self.backoff.failed(now_s)
        backoff = replace(backoff, due_s=backoff.due_s - 0.1 * jitter * backoff.pause_s)
        return replace(
            self, backoff=backoff, opened_s=now_s if self.opened_s is None else self.opened_s, answered_s=None
        )

    def postponed(self, until_s: float) -> Outage:
        """Return the outage if what is away has said when to come back. The pause never gets shorter by that."""
        return replace(self, backoff=replace(self.backoff, due_s=max(self.backoff.due_s, until_s)))

    def answered(self, now_s: float) -> Outage:
        """Return the outage after a call that shows that the dependency is back: the load begins to rise."""
        if self.opened_s is None or self.answered_s is not None:
            return self
        return replace(self, answered_s=now_s)

    def closed_elsewhere(self, now_s: float, jitter: float, spread_s: float) -> Outage:
        """Return the outage after another worker has closed one that opened before: the next try begins soon.

        The pauses stay as long as they are: a worker that is cut off by itself tries once more and goes on waiting.

        Args:
            now_s: now.
            jitter: where in ``spread_s`` the try begins.
            spread_s: the time in which all workers try again.
        """
        due_s = now_s + jitter * spread_s
        if self.opened_s is None or self.answered_s is not None or self.backoff.due_s <= due_s:
            return self
        return replace(self, backoff=replace(self.backoff, due_s=due_s))

    def joined(self, now_s: float) -> Outage:
        """Return the outage as a worker begins with that finds it open in its group: half open."""
        if self.opened_s is not None:
            return self
        return replace(self, opened_s=now_s, backoff=replace(self.backoff, due_s=now_s))

    def settled(self, now_s: float, full: int) -> Outage:
        """Return the outage without what is over: once the ramp has reached ``full``, nothing is left of it."""
        if self.opened_s is None or self.phase(now_s, full) is not Phase.CLOSED:
            return self
        return replace(self, backoff=replace(self.backoff, pause_s=0.0, due_s=0.0), opened_s=None, answered_s=None)
