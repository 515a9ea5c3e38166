"""Keeps the records of paused and held partitions out of the slots of a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafka_redelivery.consumers.flow.held_partitions import HeldPartitions
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver


class Pausing:
    """Applies pauses between two turns of the polling thread. Without any it does nothing.

    What is buffered of a paused partition stays in its lane, in order. Handler calls in progress end as usual.
    """

    def __init__(self, pauses: PauseView, held: HeldPartitions, lanes: Lanes) -> None:
        """Hold nothing yet.

        Args:
            pauses: what operators have paused.
            held: the partitions that wait for something that their next record needs.
            lanes: the lanes of the worker.
        """
        self._pauses = pauses
        self._held = held
        self._lanes = lanes
        self._applied = pauses.current

    def apply(self, in_flight: Iterable[WorkItem]) -> None:
        """Hold the lanes of these partitions, those assigned since the last call included.

        Args:
            in_flight: the work items in slots. A slot starts no further record of such a partition.
        """
        current = self._pauses.current
        if current or self._held or self._lanes.held:
            paused = {partition for partition, _ in self._lanes.all() if current.covers(partition.topic)}
            self._lanes.hold(paused | self._held.waiting())
            for item in in_flight:
                item.stop = item.stop or item.lane.held
        self._applied = current
        self._pauses.applied(current)

    def report(self, observer: ProcessObserver) -> None:
        """Report what operators have paused: a number for each assigned topic."""
        paused = Counter({partition.topic: 0 for partition, _ in self._lanes.all()})
        paused.update(partition.topic for partition in self._lanes.held if self._applied.covers(partition.topic))
        observer.paused(paused, self._applied.end)
