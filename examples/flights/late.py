"""Sends the planes that arrive late: each as soon as all its flights have been seen waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from examples.flights.data import Plane
from examples.flights.scenario import Scenario
from topology.headers import ORIG_MESSAGE_ID
from transport.protocols import Message


class LatePlanes:
    """Watches the tier of the first redelivery: a flight that failed for the first time is there, and committed.

    Args:
        given: tells which planes are late and how many flights wait for each.
        look: gives the records that have come into that tier since it was called last.
        send: sends one plane.
    """

    def __init__(self, given: Scenario, look: Callable[[], Iterable[Message]], send: Callable[[Plane], None]) -> None:
        self._given = given
        self._look = look
        self._send = send
        self._seen: dict[str, set[bytes | None]] = {tail: set() for tail in given.awaited}
        self.total = len(given.awaited)

    @property
    def sent(self) -> int:
        """How many planes have been sent."""
        return self.total - len(self._seen)

    def step(self) -> None:
        """Look at what has come, and send the planes that nothing more is to come for."""
        if not self._seen:
            return
        for message in self._look():
            tail = (message.key() or b"").decode(errors="replace")
            seen = self._seen.get(tail)
            if seen is None:
                continue
            # By their identity: a flight that comes again after its second failure is no other flight.
            seen.add(dict(message.headers() or ()).get(ORIG_MESSAGE_ID))
            if len(seen) == self._given.awaited[tail]:
                del self._seen[tail]
                self._send(self._given.planes[tail])
