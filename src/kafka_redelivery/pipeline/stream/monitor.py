"""Metrics, probes and lag of a streaming query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Measurements, measurements, serve_metrics
from kafka_redelivery.consumers.telemetry.observers import MicroBatch, QueryObserver, QueryState, report_halts
from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.pipeline.spark.kafka_options import offsets_of
from kafka_redelivery.pipeline.stream.membership import NAME
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.topology.cluster.plan import schedules_in_driver
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

ROLE: Final = "stream"

_REPORT_INTERVAL_S: Final = 1.0


@dataclass
class QueryMonitor:
    """Reports the progress of a query. The main thread calls it."""

    observer: QueryObserver
    health: Health
    """The state that probes return."""

    ends: EndOffsets | None
    """End offsets of partitions; ``None`` = lag is not reported."""

    scheduler: Measurements
    """The observer of the scheduler in the driver, if there is one."""

    gate: PauseGate | None = field(default=None, init=False)
    """Whether the group is paused, once that is known."""

    _finished: Mapping[Partition, int] = field(default_factory=dict, init=False)
    """The end offsets of the last micro-batch."""

    _last: int | None = field(default=None, init=False)
    _reported_s: float = field(default=0.0, init=False)

    def started(self, starts: Mapping[Partition, int]) -> None:
        """Report the start offsets of the query, which may begin to count its micro-batches again."""
        self._finished = dict(starts)
        self._last = None
        self.health.turned()
        # Report now: if the first micro-batch hangs, the query must count as without progress.
        self.observer.query_state(QueryState(len(starts), idle=True))

    def progressed(self, query: StreamingQuery) -> None:
        """Report the micro-batches that have ended since the last call. Spark keeps the last hundred."""
        newest = query.lastProgress
        if newest is not None and (self._last is None or newest.batchId > self._last):
            before, self._last = self._last, newest.batchId
            for progress in query.recentProgress:
                if before is None or before < progress.batchId <= newest.batchId:
                    self._micro_batch(progress)

    def _micro_batch(self, progress: StreamingQueryProgress) -> None:
        left: Counter[str] = Counter()
        for source in progress.sources:
            # The attributes are text, in PySpark 4.1 Python's. A repeated micro-batch may have no offsets.
            told = json.loads(source.json)
            ended, known = (offsets_of(told[name] or {}) for name in ("endOffset", "latestOffset"))
            self._finished = {**self._finished, **ended}
            for partition, end in ended.items():
                left[partition.topic] += max(0, known.get(partition, end) - end)
        self.observer.micro_batch(MicroBatch(progress.batchDuration / 1000, progress.numInputRows, left))

    def tick(self, *, member: bool, idle: Callable[[], bool]) -> None:
        """Report that the main thread is alive and, about once a second, the state of the query.

        Args:
            member: whether all partitions of the group are assigned to this query.
            idle: returns whether no micro-batch is running.
        """
        self.health.turned()
        if member:
            self.health.joined()
        else:
            self.health.left()
        now_s = monotonic_s()
        if now_s - self._reported_s < _REPORT_INTERVAL_S:
            return
        self._reported_s = now_s
        finished = self._finished
        waits = idle()
        if self.gate is not None:
            self.gate.report(self.observer, finished if member else ())
            waits = waits or self.gate.waiting
        self.observer.query_state(QueryState(len(finished) if member else 0, waits, self._lag(finished)))

    def _lag(self, finished: Mapping[Partition, int]) -> Mapping[str, int]:
        """Return the lag by topic. It reaches zero, because Spark counts transaction markers as read."""
        if self.ends is None:
            return {}
        self.ends.refresh(finished)
        lag: Counter[str] = Counter()
        for partition, offset in finished.items():
            end = self.ends.end(partition)
            if end is not None:
                lag[partition.topic] += max(0, end - offset)
        return lag


@contextmanager
def query_monitor(settings: Settings) -> Iterator[QueryMonitor]:
    """Create a monitor and, if configured, the endpoint for metrics and probes.

    Raises:
        CannotStartError: the port of the endpoint is in use.
    """
    health = Health(settings.metrics.stalled_after)
    ends = None if settings.metrics.port is None else EndOffsets(settings.kafka)
    name = settings.instance or NAME
    scheduler = measurements(settings, "scheduler", name)
    serving = serve_metrics(settings, ROLE, name, health, scheduler if schedules_in_driver(settings) else None)
    with serving as observer, report_halts(observer):
        try:
            yield QueryMonitor(observer, health, ends, scheduler)
        except StreamHaltedError as error:
            observer.halted(str(error))
            raise


def is_idle(query: StreamingQuery) -> bool:
    """Return whether no micro-batch is running."""
    return not query.status["isTriggerActive"]
