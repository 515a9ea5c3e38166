"""Puts planes and flights into their topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from examples.flights.broken import record_of
from examples.flights.data import Plane
from examples.flights.scenario import Scenario
from examples.flights.topics import Sender
from examples.flights.wire import FLIGHTS, PLANES, plane_record

_AT_ONCE: Final = 1000


class Feed:
    """Feeds the flights, a piece at each step, so that everything else goes on meanwhile."""

    def __init__(self, sender: Sender, given: Scenario, ahead: int) -> None:
        self._sender = sender
        self._ahead = ahead
        self._left = iter(given.records)
        self.sent: list[tuple[bytes | None, bytes]] = []
        """Key and value of each record sent, in the order of the scenario."""

        self.total = len(given.records)

    @property
    def done(self) -> bool:
        """Whether everything has been sent."""
        return len(self.sent) == self.total

    def step(self, delivered: int) -> None:
        """Send some more, unless too many have not been delivered yet.

        Args:
            delivered: how many of them have been delivered so far.

        Raises:
            KafkaSilentError: a record could not be written.
        """
        for record in islice(self._left, max(0, min(_AT_ONCE, self._ahead + delivered - len(self.sent)))):
            key, value = record_of(record)
            self._sender.send(FLIGHTS, key, value)
            self.sent.append((key, value))
        self._sender.look()


def send_planes(sender: Sender, planes: Iterable[Plane]) -> None:
    """Send some planes, keyed by tail number."""
    for plane in planes:
        sender.send(PLANES, *plane_record(plane))
