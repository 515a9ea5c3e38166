"""Lets no micro-batch of a query begin while the group or one of its sources is paused, or waits for a dependency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.telemetry.observers import QueryObserver
from kafka_redelivery.pipeline.stream.query_outages import QueryOutages
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.transport.protocols import Partition

_LOOK_S: Final = 0.2


class PauseGate:
    """A query reads all its sources in one micro-batch, so it pauses as a whole.

    The thread of the micro-batches waits here; the main thread reports.
    """

    def __init__(
        self,
        pauses: PauseView,
        topics: Collection[str],
        shutdown: Shutdown,
        outages: QueryOutages | None = None,
    ) -> None:
        """Keep the arguments.

        Args:
            pauses: what is paused.
            topics: the sources and their ready topics.
            shutdown: ends the wait.
            outages: those of what the sources depend on; ``None`` = they depend on nothing.
        """
        self._pauses = pauses
        self._topics = tuple(topics)
        self._shutdown = shutdown
        self.outages = outages
        self.waiting = False
        """Whether a micro-batch waits for the end of a pause or of an outage."""

    @property
    def paused(self) -> list[str]:
        """The topics because of which no micro-batch may begin."""
        return list(filter(self._pauses.current.covers, self._topics))

    @property
    def closed(self) -> bool:
        """Whether no micro-batch may begin."""
        return bool(self.paused or self.away)

    @property
    def away(self) -> list[str]:
        """The dependencies because of which no micro-batch may begin."""
        return [] if self.outages is None else self.outages.away

    @property
    def lasts(self) -> bool:
        """Whether an outage is not over, also if micro-batches may begin to see whether it is."""
        return self.outages is not None and any(self.outages.states.values())

    def wait(self) -> None:
        """Wait until micro-batches may begin, or until :class:`Shutdown` lets none begin."""
        try:
            while self.closed and not self._shutdown.refuses:
                self.waiting = True
                self._shutdown.wait_cancelled(_LOOK_S)
        finally:
            self.waiting = False

    def report(self, observer: QueryObserver, partitions: Collection[Partition]) -> None:
        """Report what is paused, and that it is applied if no micro-batch runs. Called once a second or more often."""
        current, away = self._pauses.current, self.away
        if self._shutdown.idle:
            self._pauses.applied(current)
        held = Counter(partition.topic for partition in partitions)
        observer.paused(held if self.paused else {}, current.end)
        if self.outages is not None:
            waits = away or self.lasts
            observer.outages(self.outages.states, held if waits else dict.fromkeys(held, 0))
