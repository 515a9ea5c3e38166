"""Keeps the records of paused partitions out of the slots of a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver


class Pausing:
    """Applies pauses between two turns of the polling thread. Without pauses it does nothing.

    What is buffered of a paused partition stays in its lane, in order. Handler calls in progress end as usual.
    """

    def __init__(self, pauses: PauseView, lanes: Lanes) -> None:
        """Hold nothing yet."""
        self._pauses = pauses
        self._lanes = lanes
        self._applied = pauses.current

    def apply(self, in_flight: Iterable[WorkItem]) -> None:
        """Hold the lanes of paused partitions, those assigned since the last call included.

        Args:
            in_flight: the work items in slots. A slot starts no further record of a paused partition.
        """
        current = self._pauses.current
        if current or self._lanes.held:
            self._lanes.hold({partition for partition, _ in self._lanes.all() if current.covers(partition.topic)})
            for item in in_flight:
                item.stop = item.stop or item.lane.held
        self._applied = current
        self._pauses.applied(current)

    def report(self, observer: ProcessObserver) -> None:
        """Report what is held: a number for each assigned topic."""
        held = Counter({partition.topic: 0 for partition, _ in self._lanes.all()})
        held.update(partition.topic for partition in self._lanes.held)
        observer.paused(held, self._applied.end)
