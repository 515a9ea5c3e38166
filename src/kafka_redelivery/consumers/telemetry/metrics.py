"""The metrics of a process, collected by Prometheus.

The threads of the process add the numbers of a whole write to plain counters. Prometheus's metric families are built
only when an endpoint is scraped, so no record takes a lock or looks up a metric.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from kafka_redelivery.consumers.clock import Clock, wall_clock_ms
from kafka_redelivery.consumers.telemetry.endpoint import serve
from kafka_redelivery.consumers.telemetry.exemplars import TRACED_CALLS
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import (
    Committed,
    DeadLetterCounts,
    HaltLabel,
    MicroBatch,
    OutcomeLabel,
    QueryState,
    Released,
    SweeperState,
    Swept,
    TierBacklog,
    WorkerState,
)
from kafka_redelivery.topology import metric_catalogue as catalogue
from kafka_redelivery.topology.cluster.plan import needs_scheduler
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.metric_catalogue import Metric, MetricKind
from kafka_redelivery.topology.policy.decision import NEVER_DEAD, AckType, Reason
from kafka_redelivery.topology.redrive.actions import Outcome

_MAX_ATTEMPT_LABEL = 10
_OUTCOMES = (
    *((outcome, ack) for outcome in ("acked", "recovered") for ack in (AckType.STANDARD, AckType.INDIVIDUAL)),
    ("retried", AckType.REDELIVERED),
    *((outcome, ack) for outcome in ("dead_lettered", "discarded") for ack in (AckType.POISON, AckType.EXPIRED)),
    ("discarded", AckType.UNMATCHED),
)
_Labels = tuple[str, ...]


class Build(NamedTuple):
    """Values of the build info metric and of the labels that every metric has."""

    version: str
    role: str
    group: str
    instance: str


class Measurements(Collector):
    """The observer behind the metrics endpoint.

    The threads of the process write to it; the thread of the endpoint reads it.
    """

    def __init__(self, build: Build, clock: Clock = wall_clock_ms) -> None:
        """Create all metrics of the catalogue; counters without labels start at 0."""
        self._common = (build.group, build.role)
        self._clock = clock
        self._counts: dict[str, Counter[_Labels]] = {
            metric.name: Counter() for metric in catalogue.CATALOGUE if metric.kind is MetricKind.COUNTER
        }
        self._gauges: dict[str, dict[_Labels, float]] = {
            metric.name: {} for metric in catalogue.CATALOGUE if metric.kind is MetricKind.GAUGE
        }
        self._histograms = {
            metric.name: _Histogram(metric.buckets)
            for metric in catalogue.CATALOGUE
            if metric.kind is MetricKind.HISTOGRAM
        }
        self._halted: Mapping[HaltLabel, int] = {}
        self._halted_dead_letters: Mapping[HaltLabel, int] = {}
        self._gauges[catalogue.BUILD.name] = {(build.version, build.instance): 1}
        self._gauges[catalogue.STARTED.name] = {(): clock() / 1000}

    def scheduler_needed(self, *, needed: bool) -> None:
        """Expose whether the group needs a scheduler."""
        self._gauges[catalogue.SCHEDULER_NEEDED.name] = {(): int(needed)}

    def begin_at_zero(self, topics: Collection[str], dead_letter_topics: Collection[str] = ()) -> None:
        """Expose labelled counters at 0 before their first event.

        Prometheus computes no increase for a series that appears with its first event.
        """
        reasons = {(topic, reason): 0 for topic in topics for reason in Reason}
        self._counts[catalogue.DISCARDED.name].update(reasons)
        dead = {label: 0 for label in reasons if label[1] not in NEVER_DEAD}
        self._counts[catalogue.DEAD_LETTERS.name].update(dead)
        self._counts[catalogue.REDRIVEN.name].update({(topic, each): 0 for topic in topics for each in Outcome})
        self._counts[catalogue.REDRIVEN_ARRIVED.name].update({(topic,): 0 for topic in topics})
        outcomes = [(outcome, ack.name.lower()) for outcome, ack in _OUTCOMES]
        self._counts[catalogue.DELIVERIES.name].update({(topic, *each): 0 for topic in topics for each in outcomes})
        attempts = [_attempt(number) for number in range(1, _MAX_ATTEMPT_LABEL + 1)]
        for counted in (catalogue.REDELIVERIES, catalogue.SUCCESSES):
            self._counts[counted.name].update({(topic, attempt): 0 for topic in topics for attempt in attempts})
        for swept in (catalogue.REMOVED, catalogue.EXPIRED_MOVED, catalogue.SWEEP_REFUSED):
            self._counts[swept.name].update({(topic,): 0 for topic in dead_letter_topics})
        self._counts[catalogue.EARLY.name].update({(where,): 0 for where in ("handler", "release")})
        self._counts[catalogue.REBALANCES.name].update({(event,): 0 for event in ("assigned", "revoked", "lost")})

    def committed(self, details: Committed) -> None:
        """See :meth:`WorkerObserver.committed`."""
        self._count_outcomes(details.outcomes, details.dead_letters)
        self._counts[catalogue.DISCARDED.name].update(details.discarded)
        self._counts[catalogue.REDRIVEN.name].update(details.redriven)
        arrived = {(topic,): number for topic, number in details.redriven_arrived.items()}
        self._counts[catalogue.REDRIVEN_ARRIVED.name].update(arrived)
        redeliveries = self._counts[catalogue.REDELIVERIES.name]
        for (topic, attempt), number in details.redeliveries.items():
            redeliveries[topic, _attempt(attempt)] += number
        successes = self._counts[catalogue.SUCCESSES.name]
        for label, number in details.outcomes.items():
            if label.outcome == "acked":
                successes[label.topic, "1"] += number
        for (topic, attempt), number in details.recoveries.items():
            successes[topic, _attempt(attempt)] += number
        self._observe_lateness(catalogue.DELIVERY_LATENESS, "handler", details.lateness_ms)
        self._observe_lateness(catalogue.OUTAGE_LATENESS, "handler", details.outage_lateness_ms)
        self._histograms[catalogue.HANDLER_TIME.name].observe(details.handler_seconds)
        self._histograms[catalogue.COMMIT_TIME.name].observe((details.seconds,))

    def released(self, details: Released) -> None:
        """See :meth:`SchedulerObserver.released`."""
        self._count_outcomes(details.outcomes, details.dead_letters)
        self._counts[catalogue.DISCARDED.name].update(details.discarded)
        self._counts[catalogue.REDRIVEN.name].update(details.redriven)
        self._observe_lateness(catalogue.RELEASE_LATENESS, "release", details.lateness_ms)
        self._histograms[catalogue.COMMIT_TIME.name].observe((details.seconds,))
        self._counts[catalogue.MOVED.name][()] += details.moved
        self._counts[catalogue.CLOCK_FAULTS.name][()] += details.clock_faults

    def backlog(self, details: Sequence[TierBacklog]) -> None:
        """See :meth:`SchedulerObserver.backlog`."""
        self._gauges[catalogue.PENDING.name] = {(tier.tier,): tier.pending for tier in details}
        self._gauges[catalogue.OLDEST.name] = {
            (tier.tier,): tier.oldest_ms / 1000 for tier in details if tier.oldest_ms is not None
        }

        self._gauges[catalogue.TIER_DELAY.name] = {(tier.tier,): tier.delay_ms / 1000 for tier in details}
        self._gauges[catalogue.ASSIGNED.name] = {(): sum(tier.partitions for tier in details)}
        self._set_alive()

    def worker_state(self, details: WorkerState) -> None:
        """See :meth:`WorkerObserver.worker_state`."""
        self._set_alive()
        self._gauges[catalogue.ASSIGNED.name] = {(): details.assigned}
        self._gauges[catalogue.IN_FLIGHT.name] = {(): details.in_flight}
        self._gauges[catalogue.UNACKNOWLEDGED.name] = {(): details.unacknowledged}
        self._gauges[catalogue.LAG.name] = {(topic,): lag for topic, lag in details.lag.items()}

    def dead_letter_counts(self, details: DeadLetterCounts) -> None:
        """See :meth:`DeadLetterObserver.dead_letter_counts`."""
        kinds, topics = details.kinds.items(), details.topics.items()
        self._gauges[catalogue.DEAD_LETTER_DEPTH.name] = {kind: kept.depth for kind, kept in kinds}
        self._gauges[catalogue.DEAD_LETTER_EXPIRED.name] = {kind: kept.expired for kind, kept in kinds}
        self._gauges[catalogue.DEAD_LETTER_OLDEST.name] = {
            kind: kept.oldest_ms / 1000 for kind, kept in kinds if kept.oldest_ms is not None
        }
        self._halted_dead_letters = details.halted
        self._set_halted()
        self._gauges[catalogue.DEAD_LETTER_UNREAD.name] = {(name,): topic.unread for name, topic in topics}
        self._gauges[catalogue.DEAD_LETTER_RETENTION.name] = {
            (name,): topic.retention_ms / 1000 for name, topic in topics if topic.retention_ms is not None
        }
        self._gauges[catalogue.DEAD_LETTER_DELETION.name] = {
            (name,): topic.loss_ms / 1000 for name, topic in topics if topic.loss_ms is not None
        }

    def swept(self, details: Swept) -> None:
        """See :meth:`SweeperObserver.swept`."""
        for metric, numbers in (
            (catalogue.REMOVED, details.removed),
            (catalogue.EXPIRED_MOVED, details.moved),
            (catalogue.SWEEP_REFUSED, details.refused),
        ):
            self._counts[metric.name].update({(topic,): number for topic, number in numbers.items()})
        self._counts[catalogue.SWEEP_CLOCK_FAULTS.name][()] += details.clock_faults

    def sweeper_state(self, details: SweeperState) -> None:
        """See :meth:`SweeperObserver.sweeper_state`."""
        self._gauges[catalogue.SWEEP_NEXT.name] = {(topic,): at / 1000 for topic, at in details.next_ms.items()}
        paused = details.paused.items()
        self._gauges[catalogue.SWEEP_RESTING.name] = {(topic, reason): number for (topic, reason), number in paused}

    def unowned_partitions(self, numbers: Mapping[str, int]) -> None:
        """See :meth:`DeadLetterObserver.unowned_partitions`."""
        self._gauges[catalogue.UNOWNED.name] = {(topic,): number for topic, number in numbers.items()}

    def fenced(self) -> None:
        """See :meth:`ProcessObserver.fenced`."""
        self._counts[catalogue.FENCED.name][()] += 1

    def write_aborted(self, cause: str) -> None:  # noqa: ARG002 - no metric has the cause
        """See :meth:`ProcessObserver.write_aborted`."""
        self._counts[catalogue.UNDONE.name][()] += 1

    def writes_failing(self, seconds: float) -> None:
        """See :meth:`ProcessObserver.writes_failing`."""
        self._gauges[catalogue.WRITES_FAILING.name] = {(): seconds}

    def rebalanced(self, event: str) -> None:
        """See :meth:`ProcessObserver.rebalanced`."""
        self._counts[catalogue.REBALANCES.name][(event,)] += 1

    def halted(self, cause: str) -> None:  # noqa: ARG002 - as above
        """See :meth:`ProcessObserver.halted`."""
        self._counts[catalogue.HALTS.name][()] += 1

    def halted_partitions(self, numbers: Mapping[HaltLabel, int]) -> None:
        """See :meth:`ProcessObserver.halted_partitions`."""
        self._halted = numbers
        self._set_halted()

    def paused(self, partitions: Mapping[str, int], applied: int) -> None:
        """See :meth:`ProcessObserver.paused`."""
        self._gauges[catalogue.PAUSED_PARTITIONS.name] = {(topic,): number for topic, number in partitions.items()}
        self._gauges[catalogue.CONTROL_OFFSET.name] = {(): applied}

    def outages(self, away: Mapping[str, bool], partitions: Mapping[str, int]) -> None:
        """See :meth:`OutageObserver.outages`."""
        self._gauges[catalogue.OUTAGE.name] = {(name,): int(each) for name, each in away.items()}
        self._gauges[catalogue.OUTAGE_PARTITIONS.name] = {(topic,): number for topic, number in partitions.items()}

    def micro_batch(self, details: MicroBatch) -> None:
        """See :meth:`QueryObserver.micro_batch`."""
        self._histograms[catalogue.MICRO_BATCH_TIME.name].observe((details.seconds,))
        self._histograms[catalogue.MICRO_BATCH_RECORDS.name].observe((details.records,))
        self._gauges[catalogue.BEHIND_LATEST.name] = {(topic,): left for topic, left in details.behind_latest.items()}
        self._set_progressed()

    def query_state(self, details: QueryState) -> None:
        """See :meth:`QueryObserver.query_state`."""
        self._set_alive()
        if details.idle:
            self._set_progressed()
        self._gauges[catalogue.ASSIGNED.name] = {(): details.assigned}
        self._gauges[catalogue.LAG.name] = {(topic,): lag for topic, lag in details.lag.items()}

    def table_progress(self) -> None:
        """See :meth:`QueryObserver.table_progress`."""
        self._gauges[catalogue.TABLE_PROGRESS.name] = {(): self._clock() / 1000}

    def collect(self) -> Iterator[Family]:
        """Yield the current values as metric families, in the order of the catalogue."""
        for metric in catalogue.CATALOGUE:
            names = (*catalogue.COMMON, *metric.labels)
            match metric.kind:
                case MetricKind.COUNTER:
                    counter = CounterMetricFamily(metric.name, metric.help, labels=names)
                    for labels, number in _copy(self._counts[metric.name], metric):
                        counter.add_metric((*self._common, *labels), number)
                    yield counter
                case MetricKind.GAUGE:
                    gauge = GaugeMetricFamily(metric.name, metric.help, labels=names)
                    for labels, value in self._gauges[metric.name].items():
                        gauge.add_metric((*self._common, *labels), value)
                    yield gauge
                case MetricKind.HISTOGRAM:
                    yield self._histograms[metric.name].family(metric, self._common)

    def _set_alive(self) -> None:
        self._gauges[catalogue.ALIVE.name] = {(): self._clock() / 1000}

    def _set_halted(self) -> None:
        """Expose the halted partitions of the process and of its dead-letter monitor, which has another thread."""
        halted = Counter(self._halted) + Counter(self._halted_dead_letters)
        self._gauges[catalogue.HALTED_PARTITIONS.name] = dict(halted.items())

    def _set_progressed(self) -> None:
        self._gauges[catalogue.QUERY_PROGRESS.name] = {(): self._clock() / 1000}

    def _count_outcomes(
        self, outcomes: Mapping[OutcomeLabel, int], dead_letters: Mapping[tuple[str, str], int]
    ) -> None:
        deliveries = self._counts[catalogue.DELIVERIES.name]
        for label, number in outcomes.items():
            deliveries[label.topic, label.outcome, label.ack_type.name.lower()] += number
        self._counts[catalogue.DEAD_LETTERS.name].update(dead_letters)

    def _observe_lateness(self, metric: Metric, where: str, lateness_ms: Sequence[int]) -> None:
        if lateness_ms:
            self._histograms[metric.name].observe([late / 1000 for late in lateness_ms])
            self._counts[catalogue.EARLY.name][(where,)] += sum(late < 0 for late in lateness_ms)


class _Histogram:
    """A histogram of plain numbers."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, values: Sequence[float]) -> None:
        ordered = sorted(values)  # so that a bucket costs a search, not each value
        before = 0
        for index, bound in enumerate(self._bounds):
            end = bisect_right(ordered, bound, before)
            self._buckets[index] += end - before
            before = end
        self._buckets[-1] += len(ordered) - before
        self._sum += sum(values)

    def family(self, metric: Metric, common: _Labels) -> Family:
        """Cumulative buckets, the format of Prometheus; those of handler calls with the last traced one."""
        family = HistogramMetricFamily(metric.name, metric.help, labels=catalogue.COMMON)
        total = 0
        cumulative: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        for index, (bound, number) in enumerate(zip(bounds, list(self._buckets), strict=True)):
            total += number
            traced = TRACED_CALLS.get((common[0], index)) if number and metric is catalogue.HANDLER_TIME else None
            cumulative.append((bound, total) if traced is None else (bound, total, traced))
        family.add_metric(common, cumulative, self._sum)
        return family


def _attempt(number: int) -> str:
    return str(number) if number < _MAX_ATTEMPT_LABEL else f"{_MAX_ATTEMPT_LABEL}+"


def _copy(counts: Counter[_Labels], metric: Metric) -> list[tuple[_Labels, int]]:
    """A copy of a counter; one without labels exists from the start, at 0."""
    found = list(counts.items())
    return found or ([] if metric.labels else [((), 0)])


def measurements(settings: Settings, role: str, instance: str) -> Measurements:
    """Return an observer whose counters begin at 0."""
    created = Measurements(Build(version("kafka-redelivery"), role, settings.group, instance))
    created.scheduler_needed(needed=needs_scheduler(settings))
    swept = sweep_plan(settings).topics if role == "scheduler" else ()
    created.begin_at_zero([source.topic for source in settings.sources], swept)
    return created


@contextmanager
def serve_metrics(
    settings: Settings, role: str, instance: str, health: Health, other: Measurements | None = None
) -> Iterator[Measurements]:
    """Yield the observer of a process, and serve its metrics and probes while the block runs if a port is configured.

    Args:
        settings: the configuration.
        role: the role of the process.
        instance: its name.
        health: the state that probes return.
        other: metrics of another role that the process has as well.

    Raises:
        CannotStartError: another process listens on the port, or the host is no address of this machine.
    """
    created = measurements(settings, role, instance)
    with serve(settings.metrics, Together(*filter(None, (created, other))), health):
        yield created


class Together(Collector):
    """The metrics of several roles in one process."""

    def __init__(self, *roles: Measurements) -> None:
        self._roles = roles

    def collect(self) -> Iterator[Family]:
        """Yield the families of the catalogue, each with the samples of all."""
        for family, *others in zip(*(role.collect() for role in self._roles), strict=True):
            for other in others:
                family.samples.extend(other.samples)
            yield family
