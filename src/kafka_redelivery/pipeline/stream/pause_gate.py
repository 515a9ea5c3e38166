"""Lets no micro-batch of a query begin while the group, or one of its sources, is paused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.telemetry.observers import QueryObserver
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.transport.protocols import Partition

_LOOK_S: Final = 0.2


class PauseGate:
    """A query reads all its sources in one micro-batch, so it pauses as a whole.

    The thread of the micro-batches waits here; the main thread reports.
    """

    def __init__(self, pauses: PauseView, topics: Collection[str], shutdown: Shutdown) -> None:
        """Keep the arguments.

        Args:
            pauses: what is paused.
            topics: the sources and their ready topics.
            shutdown: ends the wait.
        """
        self._pauses = pauses
        self._topics = tuple(topics)
        self._shutdown = shutdown
        self.waiting = False
        """Whether a micro-batch waits for the end of a pause."""

    @property
    def paused(self) -> list[str]:
        """The topics because of which no micro-batch may begin."""
        return list(filter(self._pauses.current.covers, self._topics))

    @property
    def closed(self) -> bool:
        """Whether no micro-batch may begin."""
        return bool(self.paused)

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
        current = self._pauses.current
        if self._shutdown.idle:
            self._pauses.applied(current)
        held: dict[str, int] = {}
        if self.closed:
            for partition in partitions:
                held[partition.topic] = held.get(partition.topic, 0) + 1
        observer.paused(held, current.end)
