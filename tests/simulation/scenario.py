"""One run of the simulation: a group under a load, and what is measured of it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from random import Random
from time import process_time
from typing import Any

from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.serdes.codec import RawCodec
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from tests.simulation.assignors import cooperative_sticky
from tests.simulation.costs import Costs
from tests.simulation.kafka import Kafka
from tests.simulation.processes import Group, Process, SchedulerProcess, WorkerProcess
from tests.simulation.quantiles import quantiles
from tests.simulation.timeline import START_MS, Timeline, as_clock

_KEYS = 100_000
_CONFIG = """
group: billing
kafka: {{bootstrap.servers: "localhost:9092"}}
sources: [{sources}]
handler: {{callable: "handlers:handle", slots: {slots}, ordering: {ordering}}}
policyEntry: {{redeliveryPolicy: {policy}}}
"""
_POLICY = (
    "{maximumRedeliveries: 4, initialRedeliveryDelay: 100, redeliveryDelay: 100, "
    "useExponentialBackOff: true, backOffMultiplier: 2}"
)
"""Delays of 0.1, 0.2, 0.4 and 0.8 s: the warm-up is longer than all of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A group and its load. Rates are per second of the whole group."""

    workers: int = 200
    schedulers: int = 20
    sources: int = 250
    partitions: int = 20
    """Partitions of each source."""

    tier_partitions: int | None = None
    ready_partitions: int | None = None
    """``None`` = as the source."""

    brokers: int = 10
    slots: int = 4
    ordering: str = "partition"
    call_s: float = 0.25
    """Mean duration of a handler call; each is drawn from an exponential distribution."""

    load: float = 0.6
    """Work that arrives, retries included, as a part of what all slots can do."""

    rate: float | None = None
    """Records per second instead of ``load``."""

    fail_ratio: float = 0.1
    bad_sources: int = 0
    """Number of sources all of whose calls fail."""

    value_bytes: int = 900
    warm_up_s: float = 2.5
    seconds: float = 2.0
    """What is measured."""

    seed: int = 1
    costs: Costs = field(default_factory=Costs)

    @property
    def records_per_s(self) -> float:
        """Records that arrive per second."""
        if self.rate is not None:
            return self.rate
        deliveries = sum(self.fail_ratio**attempt for attempt in range(5))
        return self.load * self.workers * self.slots / self.call_s / deliveries


@dataclass(slots=True)
class Measured:
    """What a run has shown. Times in ms unless they say otherwise."""

    scenario: dict[str, Any]
    lateness: dict[str, float]
    waiting: dict[str, float]
    """From the time when a source record can be read until its first call ends."""

    lateness_good: dict[str, float]
    waiting_good: dict[str, float]
    """The same of the sources that are not bad."""

    lateness_by_worker: list[float]
    """Median lateness in each worker."""

    calls_by_worker: list[int]
    handled_per_s: float
    redeliveries_per_s: float
    early: int
    """Redeliveries before their time."""

    behind: int
    """Records of sources and ready topics that are not finished at the end."""

    slots_used: float
    worker_busy: float
    """Share of time in which the busiest polling thread of a worker worked."""

    scheduler_busy: float
    broker_busy: float
    coordinator_busy: float
    """Share of time in which the coordinator of the workers' group worked."""

    idle_fetches_per_s: float
    worker_buffer: int
    worker_bytes: int
    scheduler_buffer: int
    scheduler_bytes: int
    partitions_per_release: float
    release_write_ms: float
    cpu_s: float
    """Processor time of the simulation itself."""

    def as_json(self) -> dict[str, Any]:
        """Return what is kept in a file."""
        return asdict(self)


class Run:
    """Runs a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.timeline = Timeline()
        self.random = Random(scenario.seed)  # noqa: S311 - no secret
        self._sources = [f"s{number:03}" for number in range(scenario.sources)]
        self._bad = frozenset(self._sources[: scenario.bad_sources])
        self._late: list[tuple[str, str, int]] = []
        """Source, worker and lateness (ms) of each redelivery."""

        self._waits: list[tuple[str, float]] = []
        self._calls: Counter[str] = Counter()
        self._measuring = False

    def measure(self) -> Measured:
        """Run, and return what was measured after the warm-up."""
        began_s = process_time()
        with as_clock(self.timeline):
            group, workers, schedulers = self._build()
            self._arrive(group)
            self.timeline.run(self.scenario.warm_up_s)
            processes: list[Process] = [*workers, *schedulers]
            before = {each.name: each.busy_s for each in processes}
            slots_before_s = sum(each.slots.busy_s for each in workers)
            brokers_before_s = [broker.busy_s for broker in group.kafka.brokers]
            coordinator = group.kafka.coordinators["workers"]
            coordinator_before_s = coordinator.busy_s
            for each in processes:
                each.writer.longest_s = 0.0
                each.writer.writes = each.writer.partitions = 0
            self._measuring = True
            self.timeline.run(self.scenario.warm_up_s + self.scenario.seconds)
        seconds, capacity = self.scenario.seconds, self.scenario.workers * self.scenario.slots
        brokers = [b.busy_s - s for b, s in zip(group.kafka.brokers, brokers_before_s, strict=True)]
        late = [ms for _, _, ms in self._late]
        by_worker: dict[str, list[int]] = {}
        for _, worker, ms in self._late:
            by_worker.setdefault(worker, []).append(ms)
        writes = sum(each.writer.writes for each in schedulers)
        costs = self.scenario.costs
        fetches = self._idle_fetches_per_s(group, processes)
        fetching = fetches / len(brokers) * costs.idle_fetch_s
        return Measured(
            scenario={name: value for name, value in asdict(self.scenario).items() if name != "costs"},
            lateness=quantiles(late),
            waiting=quantiles(ms for _, ms in self._waits),
            lateness_good=quantiles(ms for source, _, ms in self._late if source not in self._bad),
            waiting_good=quantiles(ms for source, ms in self._waits if source not in self._bad),
            lateness_by_worker=sorted(quantiles(each)["p50"] for each in by_worker.values()),
            calls_by_worker=sorted(self._calls[each.name] for each in workers),
            handled_per_s=round(sum(self._calls.values()) / seconds, 1),
            redeliveries_per_s=round(len(late) / seconds, 1),
            early=sum(ms < 0 for ms in late),
            behind=self._behind(group),
            slots_used=round((sum(each.slots.busy_s for each in workers) - slots_before_s) / seconds / capacity, 3),
            worker_busy=round(max(each.busy_s - before[each.name] for each in workers) / seconds, 3),
            scheduler_busy=round(max(each.busy_s - before[each.name] for each in schedulers) / seconds, 3),
            broker_busy=round((max(brokers) / seconds + fetching) / costs.broker_cores, 3),
            coordinator_busy=round((coordinator.busy_s - coordinator_before_s) / seconds, 3),
            idle_fetches_per_s=round(fetches),
            worker_buffer=max(each.most_buffered for each in workers),
            worker_bytes=max(each.most_bytes for each in workers),
            scheduler_buffer=max(each.most_buffered for each in schedulers),
            scheduler_bytes=max(each.most_bytes for each in schedulers),
            partitions_per_release=round(sum(each.writer.partitions for each in schedulers) / max(1, writes), 1),
            release_write_ms=round(max(each.writer.longest_s for each in schedulers) * 1000, 1),
            cpu_s=round(process_time() - began_s, 1),
        )

    def _build(self) -> tuple[Group, list[WorkerProcess], list[SchedulerProcess]]:
        scenario = self.scenario
        settings = load_settings(
            _CONFIG.format(
                sources=", ".join(f"{{topic: {each}}}" for each in self._sources),
                slots=scenario.slots,
                ordering=scenario.ordering,
                policy=_POLICY,
            )
        )
        naming, tiers = settings.naming(), tier_set(settings.entries().values())
        kafka = Kafka(self.timeline, scenario.costs, scenario.brokers)
        for source in self._sources:
            kafka.create(source, scenario.partitions)
            kafka.create(naming.ready_topic(source), scenario.ready_partitions or scenario.partitions)
            kafka.create(naming.dead_letter_topic("DLQ.{topic}", source), scenario.partitions)
        tier_topics = [naming.tier_topic(delay_ms) for delay_ms in tiers.delays_ms]
        for topic in tier_topics:
            kafka.create(topic, scenario.tier_partitions or scenario.partitions)
        raw = RawCodec()
        routes = [Route.of(settings, source, raw, raw) for source in self._sources]
        group = Group(kafka, settings, routes, tiers, self.random, scenario.call_s, self._fails, self._handled)
        workers = [WorkerProcess(group, number) for number in range(scenario.workers)]
        schedulers = [SchedulerProcess(group, number) for number in range(scenario.schedulers)]
        read = [topic for route in routes for topic in (route.source, route.ready)]
        for processes, topics in ((workers, read), (schedulers, tier_topics)):
            by_name = {each.name: each for each in processes}
            counts = {topic: kafka.counts[topic] for topic in topics}
            for name, partitions in cooperative_sticky(list(by_name), counts, {}).items():
                by_name[name].assign(partitions)
        return group, workers, schedulers

    def _arrive(self, group: Group) -> None:
        """Append records at random times, each to a random partition of a source."""
        kafka, random = group.kafka, self.random
        rate, value = self.scenario.records_per_s, b"v" * self.scenario.value_bytes
        partitions = [Partition(source, n) for source in self._sources for n in range(self.scenario.partitions)]

        def one() -> None:
            partition = partitions[random.randrange(len(partitions))]
            key = b"%d" % random.randrange(_KEYS)
            stamp_ms = START_MS + int(self.timeline.now_s * 1000)
            kafka.append(partition, ProducerRecord(*partition, key, value), stamp_ms)
            kafka.show(partition, self.timeline.now_s)
            self.timeline.after(random.expovariate(rate), one)

        one()

    def _fails(self, source: str) -> bool:
        return source in self._bad or self.random.random() < self.scenario.fail_ratio

    def _handled(self, item: WorkItem, index: int, failed: bool, worker: str) -> None:  # noqa: FBT001 - a callback
        del failed
        if not self._measuring:
            return
        self._calls[worker] += 1
        if item.lane.assigned.redelivered:
            if item.lateness and item.lateness[-1][0] == index:
                self._late.append((item.lane.assigned.route.source, worker, item.lateness[-1][1]))
        else:
            message = item.messages[index]
            waited_ms = START_MS + self.timeline.now_s * 1000 - message.timestamp()[1]
            self._waits.append((item.lane.assigned.route.source, round(waited_ms, 1)))

    def _behind(self, group: Group) -> int:
        """Return the records of sources and ready topics behind the committed offsets."""
        kafka = group.kafka
        behind = 0
        for route in group.routes:
            for topic in (route.source, route.ready):
                for number in range(kafka.counts[topic]):
                    partition = Partition(topic, number)
                    rest = kafka.logs[partition].records[kafka.commits[partition].offset :]
                    behind += sum(record is not None for record in rest)
        return behind

    def _idle_fetches_per_s(self, group: Group, processes: Iterable[Process]) -> float:
        """Return how often brokers are asked while nothing comes: by each client of each leader of its partitions."""
        asked = sum(len({group.kafka.leader(each) for each in process.reader._positions}) for process in processes)
        return asked / (self.scenario.costs.fetch_wait_s + 2 * self.scenario.costs.round_trip_s)
