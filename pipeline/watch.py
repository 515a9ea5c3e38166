"""What a streaming query tells of itself: its metrics, its probes, and how far it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from consumers.clock import monotonic_s
from consumers.health import Health
from consumers.metrics import serve_metrics
from consumers.observer import MicroBatch, Observer, QueryState, telling_halts
from pipeline.errors import StreamHaltedError
from pipeline.membership import NAME
from topology.settings import Settings
from transport.far_ends import FarEnds
from transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

ROLE: Final = "stream"

_TELL_S: Final = 1.0


class Watch:
    """Told by the driver's main thread and by Spark's; what both use is replaced as a whole."""

    def __init__(self, observer: Observer, health: Health, ends: FarEnds | None) -> None:
        """Prepare.

        Args:
            observer: told of micro-batches and of how the query stands.
            health: asked by the probes.
            ends: tells where partitions end; ``None`` = nobody wants to know.
        """
        self.observer = observer
        self.health = health
        self._ends = ends
        self._finished: Mapping[Partition, int] = {}
        """Up to where micro-batches have come."""

        self._last: int | None = None
        self._told_s = 0.0

    def begins_at(self, starts: Mapping[Partition, int]) -> None:
        """Where the query begins to read."""
        self._finished = dict(starts)
        self.health.turned()
        # From here on it has to make progress, and be it the first micro-batch that hangs.
        self.observer.query(QueryState(len(starts), resting=True))

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """A micro-batch has ended; told again of the same one, nothing happens."""
        if self._last is not None and progress.batchId <= self._last:
            return
        self._last = progress.batchId
        left: Counter[str] = Counter()
        for source in progress.sources:
            ended, known = _offsets(source.endOffset), _offsets(source.latestOffset)
            self._finished = {**self._finished, **ended}
            for place, end in ended.items():
                left[place.topic] += max(0, known.get(place, end) - end)
        self.observer.micro_batch(MicroBatch(progress.batchDuration / 1000, progress.numInputRows, left))

    def turned(self, *, member: bool, resting: Callable[[], bool]) -> None:
        """The main thread goes on.

        Args:
            member: whether all partitions of the group are this query's.
            resting: asked about once a second whether no micro-batch is under way.
        """
        self.health.turned()
        if member:
            self.health.joined()
        else:
            self.health.left()
        now_s = monotonic_s()
        if now_s - self._told_s < _TELL_S:
            return
        self._told_s = now_s
        finished = self._finished
        self.observer.query(QueryState(len(finished) if member else 0, resting(), self._lag(finished)))

    def _lag(self, finished: Mapping[Partition, int]) -> Mapping[str, int]:
        """By topic: how far the ends are from what is finished. Spark counts markers as read, so it reaches zero."""
        if self._ends is None:
            return {}
        self._ends.look(finished)
        lag: Counter[str] = Counter()
        for place, offset in finished.items():
            end = self._ends.end(place)
            if end is not None:
                lag[place.topic] += max(0, end - offset)
        return lag


@contextmanager
def watching(settings: Settings, observer: Observer | None) -> Iterator[Watch]:
    """A watch, and the endpoint that shows what it is told, if one is configured.

    Args:
        settings: the configuration.
        observer: told in place of the endpoint, ``None`` = there is nobody else.

    Raises:
        EndpointError: somebody else listens there.
    """
    health = Health(settings.metrics.stalled_after)
    ends = None if settings.metrics.port is None else FarEnds(settings.kafka)
    serving = serve_metrics(settings, ROLE, settings.instance or NAME, health)
    with serving if observer is None else nullcontext(observer) as told, telling_halts(told):
        try:
            yield Watch(told, health, ends)
        except StreamHaltedError as error:
            told.halted(str(error))
            raise


@contextmanager
def listening(session: SparkSession, query: StreamingQuery, watch: Watch) -> Iterator[None]:
    """Let Spark tell the watch of each micro-batch while the block runs."""
    from pyspark.sql.streaming.listener import (  # noqa: PLC0415 - an optional dependency
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
            """Nothing."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            if str(event.progress.runId) == str(query.runId):
                watch.progressed(event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            """Nothing."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            """Nothing."""

    listener = Listener()
    session.streams.addListener(listener)
    try:
        yield
    finally:
        session.streams.removeListener(listener)
        # Listeners are told a little later, the last time perhaps not at all.
        if query.lastProgress is not None:
            watch.progressed(query.lastProgress)


def is_resting(query: StreamingQuery) -> bool:
    """Whether no micro-batch is under way."""
    return not query.status["isTriggerActive"]


def _offsets(text: str | None) -> dict[Partition, int]:
    """Offsets as Spark's Kafka source writes them; of a micro-batch that is run again some are not there."""
    if text is None or text in {"", "None"}:  # the word is what PySpark makes of Java's null
        return {}
    found: Mapping[str, Mapping[str, int]] = json.loads(text) or {}
    return {
        Partition(topic, int(number)): offset for topic, offsets in found.items() for number, offset in offsets.items()
    }
