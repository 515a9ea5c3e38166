"""The release workload of the benchmarks in the simulation, to compare its times with measured ones."""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.topology.wire.headers import read_due, retry_headers
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from tests.simulation.costs import Costs
from tests.simulation.kafka import Kafka, Reader
from tests.simulation.processes import Group, SchedulerProcess
from tests.simulation.quantiles import quantiles
from tests.simulation.timeline import START_MS, Timeline, as_clock

_DELAY_MS = 1000
_WARM_UP_S = 2.0
_CONFIG = """
group: billing
kafka: {bootstrap.servers: "localhost:9092"}
sources: [{topic: orders}]
policyEntry: {redeliveryPolicy: {initialRedeliveryDelay: 1000, redeliveryDelay: 1000}}
"""


class Case(NamedTuple):
    """A release at 1,000/s of docs/reference/measurements.md: numbers of partitions, and the lateness in ms."""

    source: int
    tier: int
    ready: int
    p50: float
    p99: float


MEASURED = (Case(6, 6, 6, 8.8, 45), Case(300, 300, 16, 25, 126), Case(300, 300, 300, 1278, 2703))


class _Watch(Reader):
    """Reads the ready topic as the benchmark's bare reader does, and notes how late each record is."""

    def __init__(self, kafka: Kafka) -> None:
        super().__init__(kafka)
        self.late_ms: list[float] = []

    def wake(self) -> None:
        """Take what has arrived."""
        now_ms = START_MS + self._kafka.timeline.now_s * 1000
        for message in self.fetch(10**6, 0.0):
            self.late_ms.append(now_ms - (read_due(message.headers() or ()) or 0))


def lateness(case: Case, *, rate: int = 1000, seconds: float = 4.0, seed: int = 1) -> dict[str, float]:
    """Return p50, p99 and maximum of the lateness in ms, with one scheduler and one broker."""
    timeline, random = Timeline(), Random(seed)  # noqa: S311 - no secret
    with as_clock(timeline):
        settings = load_settings(_CONFIG)
        naming, tiers = settings.naming(), tier_set(settings.entries().values())
        kafka = Kafka(timeline, Costs(broker_cores=1), 1)
        tier, ready = naming.tier_topic(_DELAY_MS), naming.ready_topic("orders")
        for topic, count in (("orders", case.source), (tier, case.tier), (ready, case.ready), ("DLQ.orders", 1)):
            kafka.create(topic, count)
        group = Group(kafka, settings, (), tiers, random, 0.0, lambda _: False, lambda *_: None)
        scheduler, watch = SchedulerProcess(group, 0), _Watch(kafka)
        watch.start(dict.fromkeys(_all(ready, case.ready), 0))
        scheduler.assign(_all(tier, case.tier))
        count = 0

        def park() -> None:
            nonlocal count
            origin = Lineage("orders", count % case.source, count, START_MS, 1)
            now_ms = timeline.failure_clock_ms()
            headers = retry_headers(origin, "billing", (), Retry(_DELAY_MS, now_ms + _DELAY_MS))
            partition = Partition(tier, origin.partition % case.tier)
            kafka.append(partition, ProducerRecord(*partition, b"key", b"v" * 300, list(headers)), now_ms)
            kafka.show(partition, timeline.now_s)
            count += 1
            timeline.after(1 / rate, park)

        park()
        timeline.run(_WARM_UP_S + _DELAY_MS / 1000)
        watch.late_ms.clear()
        timeline.run(_WARM_UP_S + _DELAY_MS / 1000 + seconds)
    return quantiles(watch.late_ms)


def _all(topic: str, count: int) -> list[Partition]:
    return [Partition(topic, number) for number in range(count)]


def table() -> Iterable[tuple[Case, dict[str, float]]]:
    """Yield each measured case with the simulated lateness."""
    for case in MEASURED:
        yield case, lateness(case)
