"""A group's run with everything its monitoring should show: successes, retries, dead letters, halts, restarts.

A second group may run on Spark concurrently, which has its own dashboard.
"""

from collections.abc import Callable
from typing import Final

from tests.monitoring.prometheus import Prometheus
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, Process, script
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import LONG_S, until

HOUR_MS: Final = 3_600_000

_SPARK_S: Final = 300.0
"""A session takes fifteen seconds to start on an idle machine."""

PROVOKED: Final = {
    "RedeliveryDeadLetterNearRetention",
    "RedeliveryDeadLetterRatio",
    "RedeliveryDeadLettersGrowing",
    "RedeliveryLagGrowing",
    "RedeliveryPartitionUnowned",
    "RedeliverySchedulerMissing",
    "RedeliveryStorm",
    "RedeliveryTargetDown",
    "RedeliveryWorkerHalted",
}
"""The alerts that fire during the run."""


class Ports:
    """Scraped ports of the processes, with or without those on Spark; no process listens on ``closed``."""

    def __init__(self, *, on_spark: bool = True) -> None:
        self._on_spark = on_spark
        self.worker, self.second, self.scheduler, self.stream, self.streams_scheduler, self.closed = (
            free_port() for _ in range(6)
        )

    def all(self) -> list[int]:
        """Return all ports."""
        on_spark = [self.stream, self.streams_scheduler] if self._on_spark else []
        return [self.worker, self.second, self.scheduler, *on_spark, self.closed]


POLICY: Final = {
    "redeliveryPolicy": {
        "maximumRedeliveries": 2,
        "initialRedeliveryDelay": 500,
        "useExponentialBackOff": True,
        "backOffMultiplier": 8,
    },
    "deadLetterStrategy": {"expiration": HOUR_MS},
}
"""Redeliveries after half a second and after four seconds, long enough to be scraped while they wait."""


def prepare(group: Group) -> None:
    """Write the configuration and create the topics."""
    source = {"topic": group.source, "value": {"format": "json"}, "dependencies": ["bank"]}
    group.prepare(sources=[source], dependencies={"bank": {}}, handler={"slots": 4}, policyEntry=POLICY)


def begin_stream(group: Group, ports: Ports) -> None:
    """Start a group on Spark with one full micro-batch of records. It starts slowly."""
    group.prepare(
        handler={"callable": "tests.pipeline.handlers:scripted"},
        policyEntry=POLICY,
        pipeline={
            "checkpoint": "checkpoint",
            "maxOffsetsPerTrigger": 100,
            "sink": {"topic": group.output, "path": "table", "trigger": "2s"},
            "spark": {"spark.master": "local[1]"},
        },
        metrics={"host": "127.0.0.1"},
    )
    group.start("scheduler", "s1", f"metrics.port={ports.streams_scheduler}")
    group.start("pipeline stream", "q1", f"metrics.port={ports.stream}")
    group.send([["ok"]] * 300)


def go_on_stream(group: Group, ports: Ports, prometheus: Prometheus) -> None:
    """Produce every outcome after the first scrape, and wait until nothing is pending and that has been scraped."""
    seen = f'redelivery_query_progress_timestamp_seconds{{instance="127.0.0.1:{ports.stream}"}}'
    until(lambda: prometheus.ask(seen, prometheus.now()), "the query is scraped", within_s=_SPARK_S)
    group.send([["ok"]] * 30 + [["raise", "raise", "ok"]] * 60 + [["raise"]] * 10 + [["reject"]] * 5, first=1000)
    group.settle(_SPARK_S)
    lag = f'sum(redelivery_lag{{instance="127.0.0.1:{ports.stream}"}}) == 0'
    until(lambda: prometheus.ask(lag, prometheus.now()), "its lag of 0 is scraped", within_s=_SPARK_S)


def _when_all_are_up(ports: Ports, prometheus: Prometheus) -> float:
    """Return the present time in epoch seconds; 0 if one of the processes was not scraped just now."""
    now = prometheus.now()
    return now if len(prometheus.ask("up == 1", now)) == len(ports.all()) - 1 else 0.0


def live(group: Group, ports: Ports, prometheus: Prometheus) -> float:
    """Run the group.

    Returns:
        a time in epoch seconds at which all processes ran.
    """

    def start(port: int, role: str) -> Process:
        group.configure(metrics={"port": port, "host": "127.0.0.1"})
        process = group.scheduler(None) if role == "scheduler" else group.worker(None)
        # Prometheus counts an increase only from the first scrape on.
        seen = f'redelivery_assigned_partitions{{instance="127.0.0.1:{port}"}}'
        until(lambda: prometheus.ask(seen, prometheus.now()), f"the {role} is scraped")
        return process

    def fired(name: str) -> Callable[[], bool]:
        return lambda: name in prometheus.fired()

    scheduler = start(ports.scheduler, "scheduler")
    workers = [start(ports.worker, "worker")]
    _work(group)
    workers.append(start(ports.second, "worker"))
    assigned = "redelivery_assigned_partitions"
    until(
        lambda: [value_of(port, assigned) for port in (ports.worker, ports.second)] == [2, 2],
        "each worker has two of the four partitions",
    )
    _halt(group, ports)
    group.cluster.alter(group.dead_letters, retention_ms="20000")
    until(fired("RedeliveryDeadLetterNearRetention"), "the oldest dead letter is about to be deleted")
    until(fired("RedeliveryLagGrowing"), "the pending slow records are scraped")
    everybody_s = until(lambda: _when_all_are_up(ports, prometheus), "all processes are scraped", within_s=_SPARK_S)
    group.cluster.alter(group.dead_letters, retention_ms=str(HOUR_MS), max_message_bytes="1052684")
    for worker in workers:
        worker.stop(within_s=LONG_S)
    until(fired("RedeliveryPartitionUnowned"), "no worker has the source")
    start(ports.worker, "worker")
    scheduler.stop(within_s=LONG_S)
    until(fired("RedeliverySchedulerMissing"), "no scheduler releases the waiting records")
    return everybody_s


def _work(group: Group) -> None:
    """Produce every outcome, most of them after retries."""
    group.send([["ok"]] * 30 + [["raise", "raise", "ok"]] * 300 + [["raise"]] * 40 + [["reject"]] * 10)
    group.cluster.produce(group.source, [Sent(b"\xff no JSON")] * 3)
    group.send([["ok"]] * 5, first=1000, headers=[("JMSExpiration", b"1")])
    group.settle(_SPARK_S)  # Spark starts meanwhile


def _halt(group: Group, ports: Ports) -> None:
    """The broker refuses a dead letter, so its partition halts. The other partition has slow records."""
    group.cluster.alter(group.dead_letters, max_message_bytes="80")
    group.cluster.produce(group.source, [script(2000, ["reject"], partition=0)])
    metric = "redelivery_halted_partitions"
    until(lambda: sum(value_of(port, metric) for port in (ports.worker, ports.second)) == 1, "its partition is halted")
    group.cluster.produce(group.source, [script(2001 + n, ["sleep 0.2"], partition=1) for n in range(4000)])
