"""Sends planes and flights to their topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from examples.flights.broken import record_of
from examples.flights.data import Plane
from examples.flights.scenario import Scenario
from examples.flights.topics import Sender
from examples.flights.wire import FLIGHTS, PLANES, plane_record

_MAX_RECORDS_PER_STEP: Final = 1000


class Feed:
    """Sends the flights in steps, so that the caller can do other work in between."""

    def __init__(self, sender: Sender, given: Scenario, max_undelivered: int) -> None:
        self._sender = sender
        self._max_undelivered = max_undelivered
        self._left = iter(given.records)
        self.sent: list[tuple[bytes | None, bytes]] = []
        """Key and value of each record sent, in the order of the scenario."""

        self.total = len(given.records)

    @property
    def done(self) -> bool:
        """Whether everything has been sent."""
        return len(self.sent) == self.total

    def step(self, delivered: int) -> None:
        """Send the next records, up to the limit of undelivered ones.

        Args:
            delivered: number of records delivered so far.

        Raises:
            KafkaAccessError: a record could not be written.
        """
        for record in islice(
            self._left, max(0, min(_MAX_RECORDS_PER_STEP, self._max_undelivered + delivered - len(self.sent)))
        ):
            key, value = record_of(record)
            self._sender.send(FLIGHTS, key, value)
            self.sent.append((key, value))
        self._sender.poll()


def send_planes(sender: Sender, planes: Iterable[Plane]) -> None:
    """Send planes, keyed by tail number."""
    for plane in planes:
        sender.send(PLANES, *plane_record(plane))
