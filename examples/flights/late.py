"""Sends the late planes, each as soon as all its flights wait in the first tier, or with ``--blocking`` its first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from examples.flights.data import Plane
from examples.flights.ledger import Ledger, Position
from examples.flights.scenario import Scenario
from kafka_redelivery.topology.wire.headers import ORIG_MESSAGE_ID
from kafka_redelivery.transport.protocols import Message


class FailedFlights:
    """Returns each flight of a late plane when the journal has its first failure. With ``--blocking`` no tier has it.

    Args:
        given: names the late planes.
        fetch: returns the new records of ``flights``.
        ledger: what the journal says.
    """

    def __init__(self, given: Scenario, fetch: Callable[[], Iterable[Message]], ledger: Ledger) -> None:
        self._given = given
        self._fetch = fetch
        self._ledger = ledger
        self._well: dict[Position, Message] = {}

    def __call__(self) -> list[Message]:
        """Return the flights that have failed since the last call."""
        for message in self._fetch():
            if (message.key() or b"").decode(errors="replace") in self._given.awaited:
                self._well[message.partition(), message.offset()] = message
        return [self._well.pop(position) for position in self._ledger.retried.keys() & self._well]


class LatePlanes:
    """Watches the tier of the first redelivery, where a flight is after its first failure is committed.

    Args:
        given: names the late planes and the number of flights that wait for each.
        fetch: returns the new records of that tier.
        send: sends one plane.
    """

    def __init__(self, given: Scenario, fetch: Callable[[], Iterable[Message]], send: Callable[[Plane], None]) -> None:
        self._given = given
        self._fetch = fetch
        self._send = send
        self._seen: dict[str, set[bytes | None]] = {tail: set() for tail in given.awaited}
        self.total = len(given.awaited)

    @property
    def sent(self) -> int:
        """Number of planes sent."""
        return self.total - len(self._seen)

    def step(self) -> None:
        """Read the tier, and send each plane whose flights are all there."""
        if not self._seen:
            return
        for message in self._fetch():
            tail = (message.key() or b"").decode(errors="replace")
            seen = self._seen.get(tail)
            if seen is None:
                continue
            # By message id: a flight that returns after its second failure counts once.
            seen.add(dict(message.headers() or ()).get(ORIG_MESSAGE_ID))
            if len(seen) == self._given.awaited[tail]:
                del self._seen[tail]
                self._send(self._given.planes[tail])
