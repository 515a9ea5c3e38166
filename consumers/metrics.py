"""The catalogue bound to Prometheus.

The polling thread adds whole batches to plain numbers; Prometheus's own families are made only when
somebody scrapes, so nothing is locked or looked up for a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from consumers.endpoint import serve
from consumers.health import Health
from consumers.observer import Committed, Observer, OutcomeLabel, Released, TierBacklog, WorkerState
from topology import metric_catalogue as catalogue
from topology.metric_catalogue import Kind, Metric
from topology.settings import Settings

_MANY_ATTEMPTS = 10
_Labels = tuple[str, ...]


class Measurements(Collector):
    """An observer that Prometheus can collect from. Written by one thread, read by another."""

    def __init__(self, build: _Labels) -> None:
        """Start at zero; ``build`` is version, role, group, instance."""
        self._counts: dict[str, Counter[_Labels]] = {
            metric.name: Counter() for metric in catalogue.CATALOGUE if metric.kind is Kind.COUNTER
        }
        self._gauges: dict[str, dict[_Labels, float]] = {
            metric.name: {} for metric in catalogue.CATALOGUE if metric.kind is Kind.GAUGE
        }
        self._histograms = {
            metric.name: _Histogram(metric.buckets) for metric in catalogue.CATALOGUE if metric.kind is Kind.HISTOGRAM
        }
        self._gauges[catalogue.BUILD.name] = {build: 1}

    def committed(self, details: Committed) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._ended(details.outcomes, details.dead_letters)
        redeliveries = self._counts[catalogue.REDELIVERIES.name]
        for (topic, attempt), number in details.redeliveries.items():
            redeliveries[topic, str(attempt) if attempt < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"] += number
        self._late(catalogue.DELIVERY_LATENESS, "handler", details.lateness_ms)
        self._histograms[catalogue.HANDLER_TIME.name].observe(details.handler_seconds)
        self._histograms[catalogue.COMMIT_TIME.name].observe((details.seconds,))

    def released(self, details: Released) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._ended(details.outcomes, details.dead_letters)
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

    def state(self, details: WorkerState) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._gauges[catalogue.ASSIGNED.name] = {(): details.assigned}
        self._gauges[catalogue.IN_FLIGHT.name] = {(): details.in_flight}
        self._gauges[catalogue.HALTED_PARTITIONS.name] = {(): details.halted}
        self._gauges[catalogue.LAG.name] = {(topic,): lag for topic, lag in details.lag.items()}

    def undone(self, cause: str) -> None:  # noqa: ARG002 - the cause is for logs
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.UNDONE.name][()] += 1

    def rebalanced(self, event: str) -> None:
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.REBALANCES.name][(event,)] += 1

    def halted(self, cause: str) -> None:  # noqa: ARG002 - as above
        """See :class:`consumers.observer.Observer`."""
        self._counts[catalogue.HALTS.name][()] += 1

    def collect(self) -> Iterator[Family]:
        """The families as they are now, in the catalogue's order."""
        for metric in catalogue.CATALOGUE:
            match metric.kind:
                case Kind.COUNTER:
                    counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                    for labels, number in _copy(self._counts[metric.name], metric):
                        counter.add_metric(labels, number)
                    yield counter
                case Kind.GAUGE:
                    gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                    for labels, value in self._gauges[metric.name].items():
                        gauge.add_metric(labels, value)
                    yield gauge
                case Kind.HISTOGRAM:
                    yield self._histograms[metric.name].family(metric)

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

    def family(self, metric: Metric) -> Family:
        """Cumulative, as Prometheus wants them."""
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        total = 0
        cumulative: list[tuple[str, float]] = []
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        for bound, number in zip(bounds, list(self._buckets), strict=True):
            total += number
            cumulative.append((bound, total))
        family.add_metric((), cumulative, self._sum)
        return family


def _copy(counts: Counter[_Labels], metric: Metric) -> list[tuple[_Labels, int]]:
    """What a counter holds now; one without labels is there from the start, at 0."""
    found = list(counts.items())
    return found or ([] if metric.labels else [((), 0)])


@contextmanager
def serve_metrics(settings: Settings, role: str, instance: str, health: Health) -> Iterator[Observer]:
    """An observer, and the endpoint it is scraped at while the block runs, if one is configured."""
    measurements = Measurements((version("kafka-redelivery"), role, settings.group, instance))
    with serve(settings.metrics, measurements, health):
        yield measurements
