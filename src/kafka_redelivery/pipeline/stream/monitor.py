"""Metrics, probes and lag of a streaming query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Measurements, measurements, serve_metrics
from kafka_redelivery.consumers.telemetry.observers import MicroBatch, QueryObserver, QueryState, report_halts
from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.pipeline.stream.membership import NAME
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.topology.cluster.plan import schedules_in_driver
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

ROLE: Final = "stream"

_REPORT_INTERVAL_S: Final = 1.0


class QueryMonitor:
    """Reports the progress of a query. The main thread and Spark's listener thread call it."""

    def __init__(
        self, observer: QueryObserver, health: Health, ends: EndOffsets | None, scheduler: Measurements
    ) -> None:
        """Report nothing yet.

        Args:
            observer: receives micro-batches and the state of the query.
            health: the state that probes return.
            ends: end offsets of partitions; ``None`` = lag is not reported.
            scheduler: the observer of the scheduler in the driver, if there is one.
        """
        self.observer = observer
        self.scheduler = scheduler
        self.health = health
        self._ends = ends
        self._finished: Mapping[Partition, int] = {}
        """The end offsets of the last micro-batch."""

        self._last: int | None = None
        self._reported_s = 0.0
        self.gate: PauseGate | None = None
        """Whether the group is paused, once that is known."""

    def started(self, starts: Mapping[Partition, int]) -> None:
        """Report the start offsets of the query, which may begin to count its micro-batches again."""
        self._finished = dict(starts)
        self._last = None
        self.health.turned()
        # Report now: if the first micro-batch hangs, the query must count as without progress.
        self.observer.query_state(QueryState(len(starts), idle=True))

    def on_progress(self, progress: StreamingQueryProgress) -> None:
        """Report a finished micro-batch. A repeated report of the same micro-batch is ignored."""
        if self._last is not None and progress.batchId <= self._last:
            return
        self._last = progress.batchId
        left: Counter[str] = Counter()
        for source in progress.sources:
            ended, known = _offsets(source.endOffset), _offsets(source.latestOffset)
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
        if self._ends is None:
            return {}
        self._ends.refresh(finished)
        lag: Counter[str] = Counter()
        for partition, offset in finished.items():
            end = self._ends.end(partition)
            if end is not None:
                lag[partition.topic] += max(0, end - offset)
        return lag


@contextmanager
def query_monitor(settings: Settings, observer: QueryObserver | None) -> Iterator[QueryMonitor]:
    """Create a monitor and, if configured, the endpoint for metrics and probes.

    Args:
        settings: the configuration.
        observer: receives the reports instead of the endpoint; ``None`` = the endpoint.

    Raises:
        EndpointError: the port of the endpoint is in use.
    """
    health = Health(settings.metrics.stalled_after)
    ends = None if settings.metrics.port is None else EndOffsets(settings.kafka)
    name = settings.instance or NAME
    scheduler = measurements(settings, "scheduler", name)
    serving = serve_metrics(settings, ROLE, name, health, scheduler if schedules_in_driver(settings) else None)
    with serving if observer is None else nullcontext(observer) as chosen, report_halts(chosen):
        try:
            yield QueryMonitor(chosen, health, ends, scheduler)
        except StreamHaltedError as error:
            chosen.halted(str(error))
            raise


@contextmanager
def progress_listener(session: SparkSession, query: StreamingQuery, monitor: QueryMonitor) -> Iterator[None]:
    """Pass Spark's progress events of a query to the monitor while the block runs."""
    from pyspark.sql.streaming.listener import (  # noqa: PLC0415 - an optional dependency
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
            """Ignore the event."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            if str(event.progress.runId) == str(query.runId):
                monitor.on_progress(event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            """Ignore the event."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            """Ignore the event."""

    listener = Listener()
    session.streams.addListener(listener)
    try:
        yield
    finally:
        session.streams.removeListener(listener)
        # Spark calls listeners asynchronously and may drop the last event.
        if query.lastProgress is not None:
            monitor.on_progress(query.lastProgress)


def is_idle(query: StreamingQuery) -> bool:
    """Return whether no micro-batch is running."""
    return not query.status["isTriggerActive"]


def _offsets(text: str | None) -> dict[Partition, int]:
    """Parse offsets in the format of Spark's Kafka source. A repeated micro-batch may have none."""
    if text is None or text in {"", "None"}:  # PySpark renders Java's null as this text
        return {}
    found: Mapping[str, Mapping[str, int]] = json.loads(text) or {}
    return {
        Partition(topic, int(number)): offset for topic, offsets in found.items() for number, offset in offsets.items()
    }
