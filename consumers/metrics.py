"""The catalogue bound to Prometheus.

The polling thread adds whole batches to plain numbers; Prometheus's own families are made only when
somebody scrapes, so nothing is locked or looked up for a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from consumers.clock import Clock, wall_clock_ms
from consumers.endpoint import serve
from consumers.health import Health
from consumers.observer import (
    Committed,
    DeadLettersKept,
    MicroBatch,
    Observer,
    OutcomeLabel,
    QueryState,
    Released,
    SweepStanding,
    Swept,
    TierBacklog,
    WorkerState,
)
from topology import metric_catalogue as catalogue
from topology.decision import AckType, Reason
from topology.metric_catalogue import Kind, Metric
from topology.settings import Settings
from topology.sweep_plan import sweep_plan

_MANY_ATTEMPTS = 10
_OUTCOMES = (
    *((outcome, ack) for outcome in ("acked", "recovered") for ack in (AckType.STANDARD, AckType.INDIVIDUAL)),
    ("retried", AckType.REDELIVERED),
    *((outcome, ack) for outcome in ("dead_lettered", "discarded") for ack in (AckType.POISON, AckType.EXPIRED)),
)
_Labels = tuple[str, ...]


class Build(NamedTuple):
    """What a process is."""

    version: str
    role: str
    group: str
    instance: str


class Measurements(Collector):
    """An observer that Prometheus can collect from. Written by one thread, read by another."""

    def __init__(self, build: Build, clock: Clock = wall_clock_ms) -> None:
        """Start at zero."""
        self._common = (build.group, build.role)
        self._clock = clock
        self._counts: dict[str, Counter[_Labels]] = {
            metric.name: Counter() for metric in catalogue.CATALOGUE if metric.kind is Kind.COUNTER
        }
        self._gauges: dict[str, dict[_Labels, float]] = {
            metric.name: {} for metric in catalogue.CATALOGUE if metric.kind is Kind.GAUGE
        }
        self._histograms = {
            metric.name: _Histogram(metric.buckets) for metric in catalogue.CATALOGUE if metric.kind is Kind.HISTOGRAM
        }
        self._gauges[catalogue.BUILD.name] = {(build.version, build.instance): 1}
        self._gauges[catalogue.STARTED.name] = {(): clock() / 1000}

    def begin_at_zero(self, topics: Collection[str], dead_letter_topics: Collection[str] = ()) -> None:
        """Expose now what would appear with its first event: Prometheus sees no increase of what was not there."""
        reasons = {(topic, reason): 0 for topic in topics for reason in Reason}
        self._counts[catalogue.DISCARDED.name].update(reasons)
        dead = {label: 0 for label in reasons if label[1] is not Reason.DUPLICATE}
        self._counts[catalogue.DEAD_LETTERS.name].update(dead)
        outcomes = [(outcome, ack.name.lower()) for outcome, ack in _OUTCOMES]
        self._counts[catalogue.DELIVERIES.name].update({(topic, *each): 0 for topic in topics for each in outcomes})
        attempts = [_attempt(number) for number in range(1, _MANY_ATTEMPTS + 1)]
        for counted in (catalogue.REDELIVERIES, catalogue.SUCCESSES):
            self._counts[counted.name].update({(topic, attempt): 0 for topic in topics for attempt in attempts})
        for swept in (catalogue.REMOVED, catalogue.EXPIRED_MOVED, catalogue.SWEEP_REFUSED):
            self._counts[swept.name].update({(topic,): 0 for topic in dead_letter_topics})
        self._counts[catalogue.EARLY.name].update({(where,): 0 for where in ("handler", "release")})
        self._counts[catalogue.REBALANCES.name].update({(event,): 0 for event in ("assigned", "revoked", "lost")})

    def committed(self, details: Committed) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._ended(details.outcomes, details.dead_letters)
        self._counts[catalogue.DISCARDED.name].update(details.discarded)
        redeliveries = self._counts[catalogue.REDELIVERIES.name]
        for (topic, attempt), number in details.redeliveries.items():
            redeliveries[topic, _attempt(attempt)] += number
        successes = self._counts[catalogue.SUCCESSES.name]
        for label, number in details.outcomes.items():
            if label.outcome == "acked":
                successes[label.topic, "1"] += number
        for (topic, attempt), number in details.recoveries.items():
            successes[topic, _attempt(attempt)] += number
        self._late(catalogue.DELIVERY_LATENESS, "handler", details.lateness_ms)
        self._histograms[catalogue.HANDLER_TIME.name].observe(details.handler_seconds)
        self._histograms[catalogue.COMMIT_TIME.name].observe((details.seconds,))

    def released(self, details: Released) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._ended(details.outcomes, details.dead_letters)
        self._counts[catalogue.DISCARDED.name].update(details.discarded)
        self._late(catalogue.RELEASE_LATENESS, "release", details.lateness_ms)
        self._histograms[catalogue.COMMIT_TIME.name].observe((details.seconds,))
        self._counts[catalogue.MOVED.name][()] += details.moved
        self._counts[catalogue.CLOCK_FAULTS.name][()] += details.clock_faults

    def backlog(self, details: Sequence[TierBacklog]) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._gauges[catalogue.PENDING.name] = {(tier.tier,): tier.pending for tier in details}
        self._gauges[catalogue.OLDEST.name] = {
            (tier.tier,): tier.oldest_ms / 1000 for tier in details if tier.oldest_ms is not None
        }

        self._gauges[catalogue.TIER_DELAY.name] = {(tier.tier,): tier.delay_ms / 1000 for tier in details}
        self._gauges[catalogue.ASSIGNED.name] = {(): sum(tier.partitions for tier in details)}
        self._alive()

    def state(self, details: WorkerState) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._alive()
        self._gauges[catalogue.ASSIGNED.name] = {(): details.assigned}
        self._gauges[catalogue.IN_FLIGHT.name] = {(): details.in_flight}
        self._gauges[catalogue.UNACKNOWLEDGED.name] = {(): details.unacknowledged}
        self._gauges[catalogue.HALTED_PARTITIONS.name] = {(): details.halted}
        self._gauges[catalogue.LAG.name] = {(topic,): lag for topic, lag in details.lag.items()}

    def dead_letters_kept(self, details: DeadLettersKept) -> None:
        """See :class:`consumers.observer.Observer`."""
        kinds, topics = details.kinds.items(), details.topics.items()
        self._gauges[catalogue.DEAD_LETTER_DEPTH.name] = {kind: kept.depth for kind, kept in kinds}
        self._gauges[catalogue.DEAD_LETTER_EXPIRED.name] = {kind: kept.expired for kind, kept in kinds}
        self._gauges[catalogue.DEAD_LETTER_OLDEST.name] = {
            kind: kept.oldest_ms / 1000 for kind, kept in kinds if kept.oldest_ms is not None
        }
        self._gauges[catalogue.DEAD_LETTER_UNREAD.name] = {(name,): topic.unread for name, topic in topics}
        self._gauges[catalogue.DEAD_LETTER_RETENTION.name] = {
            (name,): topic.retention_ms / 1000 for name, topic in topics if topic.retention_ms is not None
        }
        self._gauges[catalogue.DEAD_LETTER_DELETION.name] = {
            (name,): topic.loss_ms / 1000 for name, topic in topics if topic.loss_ms is not None
        }

    def swept(self, details: Swept) -> None:
        """See :class:`consumers.observer.Observer`."""
        for metric, numbers in (
            (catalogue.REMOVED, details.removed),
            (catalogue.EXPIRED_MOVED, details.moved),
            (catalogue.SWEEP_REFUSED, details.refused),
        ):
            self._counts[metric.name].update({(topic,): number for topic, number in numbers.items()})
        self._counts[catalogue.SWEEP_CLOCK_FAULTS.name][()] += details.clock_faults

    def sweep_stands(self, details: SweepStanding) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._gauges[catalogue.SWEEP_NEXT.name] = {(topic,): at / 1000 for topic, at in details.next_ms.items()}
        resting = details.resting.items()
        self._gauges[catalogue.SWEEP_RESTING.name] = {(topic, why): number for (topic, why), number in resting}

    def unowned(self, partitions: Mapping[str, int]) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._gauges[catalogue.UNOWNED.name] = {(topic,): number for topic, number in partitions.items()}

    def fenced(self) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.FENCED.name][()] += 1

    def undone(self, cause: str) -> None:  # noqa: ARG002 - the cause is for logs
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.UNDONE.name][()] += 1

    def rebalanced(self, event: str) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.REBALANCES.name][(event,)] += 1

    def halted(self, cause: str) -> None:  # noqa: ARG002 - as above
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.HALTS.name][()] += 1

    def micro_batch(self, details: MicroBatch) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._histograms[catalogue.MICRO_BATCH_TIME.name].observe((details.seconds,))
        self._histograms[catalogue.MICRO_BATCH_RECORDS.name].observe((details.records,))
        self._gauges[catalogue.BEHIND_LATEST.name] = {(topic,): left for topic, left in details.behind_latest.items()}
        self._progressed()

    def query(self, details: QueryState) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._alive()
        if details.resting:
            self._progressed()
        self._gauges[catalogue.ASSIGNED.name] = {(): details.assigned}
        self._gauges[catalogue.LAG.name] = {(topic,): lag for topic, lag in details.lag.items()}

    def collect(self) -> Iterator[Family]:
        """The families as they are now, in the catalogue's order."""
        for metric in catalogue.CATALOGUE:
            names = (*catalogue.COMMON, *metric.labels)
            match metric.kind:
                case Kind.COUNTER:
                    counter = CounterMetricFamily(metric.name, metric.help, labels=names)
                    for labels, number in _copy(self._counts[metric.name], metric):
                        counter.add_metric((*self._common, *labels), number)
                    yield counter
                case Kind.GAUGE:
                    gauge = GaugeMetricFamily(metric.name, metric.help, labels=names)
                    for labels, value in self._gauges[metric.name].items():
                        gauge.add_metric((*self._common, *labels), value)
                    yield gauge
                case Kind.HISTOGRAM:
                    yield self._histograms[metric.name].family(metric, self._common)

    def _alive(self) -> None:
        self._gauges[catalogue.ALIVE.name] = {(): self._clock() / 1000}

    def _progressed(self) -> None:
        self._gauges[catalogue.QUERY_PROGRESS.name] = {(): self._clock() / 1000}

    def _ended(self, outcomes: Mapping[OutcomeLabel, int], dead_letters: Mapping[tuple[str, str], int]) -> None:
        deliveries = self._counts[catalogue.DELIVERIES.name]
        for label, number in outcomes.items():
            deliveries[label.topic, label.outcome, label.ack_type.name.lower()] += number
        self._counts[catalogue.DEAD_LETTERS.name].update(dead_letters)

    def _late(self, metric: Metric, where: str, lateness_ms: Sequence[int]) -> None:
        if lateness_ms:
            self._histograms[metric.name].observe([late / 1000 for late in lateness_ms])
            self._counts[catalogue.EARLY.name][(where,)] += sum(late < 0 for late in lateness_ms)


class _Histogram:
    """Counts by bucket, as plain numbers."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, values: Sequence[float]) -> None:
        bounds, buckets = self._bounds, self._buckets
        first = bounds[0]
        rest = [value for value in values if value > first]  # of a fast handler's calls, hardly one
        buckets[0] += len(values) - len(rest)
        for value in rest:
            buckets[bisect_left(bounds, value)] += 1
        self._sum += sum(values)

    def family(self, metric: Metric, common: _Labels) -> Family:
        """Cumulative, as Prometheus wants them."""
        family = HistogramMetricFamily(metric.name, metric.help, labels=catalogue.COMMON)
        total = 0
        cumulative: list[tuple[str, float]] = []
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        for bound, number in zip(bounds, list(self._buckets), strict=True):
            total += number
            cumulative.append((bound, total))
        family.add_metric(common, cumulative, self._sum)
        return family


def _attempt(number: int) -> str:
    return str(number) if number < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"


def _copy(counts: Counter[_Labels], metric: Metric) -> list[tuple[_Labels, int]]:
    """What a counter holds now; one without labels is there from the start, at 0."""
    found = list(counts.items())
    return found or ([] if metric.labels else [((), 0)])


@contextmanager
def serve_metrics(settings: Settings, role: str, instance: str, health: Health) -> Iterator[Observer]:
    """An observer, and the endpoint it is scraped at while the block runs, if one is configured."""
    measurements = Measurements(Build(version("kafka-redelivery"), role, settings.group, instance))
    swept = sweep_plan(settings).topics if role == "scheduler" else ()
    measurements.begin_at_zero([source.topic for source in settings.sources], swept)
    with serve(settings.metrics, measurements, health):
        yield measurements
