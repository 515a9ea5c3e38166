"""How a worker stands, told about once a second."""

from __future__ import annotations

from collections.abc import Iterable

from consumers.assignment import Assignment
from consumers.clock import monotonic_s
from consumers.health import Health
from consumers.observer import Observer, WorkerState
from consumers.unit import Unit
from transport.protocols import Source

_EVERY_S = 1.0


class Standing:
    """Owned by the polling thread."""

    def __init__(self, reader: Source, assignment: Assignment, observer: Observer, health: Health) -> None:
        self._reader = reader
        self._assignment = assignment
        self._observer = observer
        self._health = health
        self._told_s = 0.0

    def tell(self, under_way: Iterable[Unit], unacknowledged: int) -> None:
        """Tell it, unless that was done just now."""
        now = monotonic_s()
        if now < self._told_s + _EVERY_S:
            return
        self._told_s = now
        lag: dict[str, int] = {}
        for assigned in self._assignment.all():
            topic = assigned.partition.topic
            ahead = self._reader.ahead(assigned.partition, assigned.progress.next_offset)
            lag[topic] = lag.get(topic, 0) + ahead + assigned.progress.outstanding
        self._observer.state(
            WorkerState(
                assigned=len(self._assignment.all()),
                in_flight=sum(len(unit.messages) for unit in under_way),
                halted=len(self._assignment.halted),
                lag=lag,
                unacknowledged=unacknowledged,
            )
        )
        self._health.halted(len(self._assignment.halted))
