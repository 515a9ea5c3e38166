"""The outages of what the handlers of a query depend on: while one lasts, its tasks handle at most a single record."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.outages import Outages
from kafka_redelivery.consumers.flow.work_item import MetOutage
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.pipeline.handler.child import Attempt
from kafka_redelivery.pipeline.task.contract import TaskResult
from kafka_redelivery.topology.config.settings import HandlerSection
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Partition


class QueryOutages:
    """Tasks find an outage, and the driver decides for all of them. Thread-safe.

    It is the driver's counterpart of what a worker does between two records: see :class:`Outages`.
    """

    def __init__(
        self, outages: Outages, routes: Mapping[str, tuple[Route, bool]], handlers: Mapping[str, HandlerSection]
    ) -> None:
        """Prepare.

        Args:
            outages: the dependencies, as a worker sees them.
            routes: the route of each topic, and whether it is a ready topic.
            handlers: the handler of each source.
        """
        self._outages, self._routes = outages, routes
        self._needs = {topic: [name for name, _ in section.dependencies] for topic, section in handlers.items()}
        self._assigned: dict[Partition, AssignedPartition] = {}
        self._runs = 0
        self._lock = threading.Lock()

    @property
    def states(self) -> dict[str, bool]:
        """Whether each dependency is away."""
        return self._outages.states

    @property
    def away(self) -> list[str]:
        """The dependencies because of which no tasks may run now. Also does what is due."""
        with self._lock:
            self._outages.turn()
            return [name for name in self._outages.states if self._outages.limit(name) == 0]

    def begin(self) -> Attempt:
        """Return what the next tasks have to know. While an outage is half open, they handle a single record."""
        with self._lock:
            outages, now_ms = self._outages, self._outages.clock_ms()
            self._runs += 1
            delayed = {topic: outages.delayed_ms(needs) for topic, needs in self._needs.items()}
            over_ms = {topic: now_ms - since_ms for topic, since_ms in delayed.items() if since_ms is not None}
            tried = outages.to_try
            only = None if tried is None else (tried[0].partition, tried[1])
            return Attempt(self._runs, outages.since_answer_s, outages.failing, over_ms, only)

    def end(self, attempt: Attempt, results: Sequence[TaskResult], began_s: float) -> bool:
        """Take in what tasks have found.

        Args:
            attempt: what they knew.
            results: what they did.
            began_s: when they began (monotonic).

        Returns:
            whether records of their micro-batch have no outcome, so that it has to be run again.
        """
        found = [each.outages for each in results]
        waiting = sum((each.waiting for each in found), Counter[str]())
        with self._lock:
            outages = self._outages
            if attempt.only is None:
                outages.forget_met()
            for met in (met for each in found for met in each.met):
                outages.met(self._assigned_of(met.partition), met.offset, MetOutage(met.failure, began_s))
            for failure in (failure for each in found for failure in each.failed.values()):
                outages.fails(MetOutage(failure, began_s))
            handled = {source for each in found for source in each.handled}
            if attempt.only is not None:
                partition, offset = attempt.only
                if not waiting:
                    outages.tried(self._assigned_of(partition), offset, succeeded=bool(handled))
                return True
            outages.waiting = waiting
            for source in handled:
                needs = [name for name in self._needs[source] if name not in waiting]
                outages.others_handled(needs, 1, lambda _assigned, _name: True)
        return bool(waiting)

    def _assigned_of(self, partition: Partition) -> AssignedPartition:
        if partition not in self._assigned:
            self._assigned[partition] = AssignedPartition(partition, *self._routes[partition.topic], Progress(0))
        return self._assigned[partition]
