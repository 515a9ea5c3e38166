"""Lets no micro-batch of a query begin while the group or one of its sources is paused, or waits for a dependency."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.telemetry.observers import QueryObserver
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.topology.wire.outages import OutageNote
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

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
        dependencies: Collection[str] = (),
        decided: Callable[[], Mapping[str, OutageNote]] = dict,
    ) -> None:
        """Keep the arguments.

        Args:
            pauses: what is paused.
            topics: the sources and their ready topics.
            shutdown: ends the wait.
            dependencies: what the sources depend on.
            decided: returns what operators have said of dependencies last.
        """
        self._pauses = pauses
        self._topics = tuple(topics)
        self._shutdown = shutdown
        self._dependencies, self._decided = tuple(dependencies), decided
        self.waiting = False
        """Whether a micro-batch waits for the end of a pause."""

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
        """The dependencies that are away, as an operator says."""
        decided, now_ms = self._decided(), wall_clock_ms()
        return [name for name in self._dependencies if name in decided and decided[name].is_open(now_ms)]

    def wait(self) -> None:
        """Wait until micro-batches may begin, or until :class:`Shutdown` lets none begin."""
        try:
            while self.closed and not self._shutdown.refuses:
                if not self.waiting and (away := self.away):
                    _log.warning("%s is away, as an operator says; the query waits", ", ".join(away))
                self.waiting = True
                self._shutdown.wait_cancelled(_LOOK_S)
        finally:
            self.waiting = False

    def report(self, observer: QueryObserver, partitions: Collection[Partition]) -> None:
        """Report what is paused, and that it is applied if no micro-batch runs. Called once a second or more often."""
        current = self._pauses.current
        if self._shutdown.idle:
            self._pauses.applied(current)
        held, away = Counter(partition.topic for partition in partitions), self.away
        observer.paused(held if self.paused else {}, current.end)
        if self._dependencies:
            waiting = held if away else dict.fromkeys(held, 0)
            observer.outages({name: name in away for name in self._dependencies}, waiting)
