"""The metrics of a streaming query that a worker does not have."""

import pytest
from prometheus_client import CollectorRegistry

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements, measurements, serve_metrics
from kafka_redelivery.consumers.telemetry.observers import MicroBatch, QueryState
from kafka_redelivery.topology.config.loading import load_settings
from tests.scenarios.scraping import free_port, value_of

NOW_MS = 1_780_000_100_250


@pytest.mark.parametrize("busy", [False, True])
def test_an_idle_query_makes_progress(*, busy: bool) -> None:
    """So does one that has just finished a micro-batch. One that runs a micro-batch for long is only alive."""
    now_ms = NOW_MS
    found = Measurements(Build("1.2.3", "stream", "billing", "q1"), lambda: now_ms)
    registry = CollectorRegistry()
    registry.register(found)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"redelivery_{name}", {"group": "billing", "role": "stream", **labels})

    found.micro_batch(MicroBatch(0.5, 10, {"orders": 7}))
    now_ms += 60_000
    found.query_state(QueryState(assigned=3, idle=not busy, lag={"orders": 11}))
    assert value("query_progress_timestamp_seconds") == (NOW_MS if busy else now_ms) / 1000
    assert value("alive_timestamp_seconds") == now_ms / 1000
    assert value("behind_latest_offsets", topic="orders") == 7
    assert value("lag", topic="orders") == 11
    assert value("assigned_partitions") == 3
    assert value("table_progress_timestamp_seconds") is None  # no alert for a query without a table
    found.table_progress()
    assert value("table_progress_timestamp_seconds") == now_ms / 1000
    assert [value(f"micro_batch_seconds_{end}") for end in ("count", "sum")] == [1, 0.5]
    assert [value(f"micro_batch_records_{end}") for end in ("count", "sum")] == [1, 10]


def test_an_endpoint_has_the_metrics_of_a_scheduler_in_the_driver() -> None:
    """Each family is there once, with the samples of both roles."""
    text = "group: billing\nkafka: {bootstrap.servers: 'localhost:9'}\nsources: [{topic: orders}]\n"
    port = free_port()
    settings = load_settings(f"{text}metrics: {{port: {port}, host: 127.0.0.1}}\n")
    scheduler = measurements(settings, "scheduler", "spark")
    with serve_metrics(settings, "stream", "spark", Health(), scheduler) as query:
        query.write_aborted("cause")
        found = {role: value_of(port, "redelivery_commits_undone_total", role=role) for role in ("stream", "scheduler")}
        assert found == {"stream": 1, "scheduler": 0}
        scheduler.fenced()
        assert value_of(port, "redelivery_fenced_total", role="scheduler") == 1
        assert value_of(port, "redelivery_build_info") == 2


@pytest.mark.parametrize(
    ("section", "needed"),
    [
        ("", 1),
        ("policyEntry: {redeliveryPolicy: {maximumRedeliveries: 0}}\n", 0),
        ("handler: {callable: 'm:f', nonBlockingRedelivery: false}\n", 0),
    ],
)
def test_whether_the_group_needs_a_scheduler(section: str, needed: int) -> None:
    """Else the alert on a scheduler that is missing would fire for groups without retry topics."""
    settings = load_settings("group: g\nkafka: {bootstrap.servers: k}\nsources: [{topic: t}]\n" + section)
    found = {
        sample.name: sample.value for each in measurements(settings, "worker", "w").collect() for sample in each.samples
    }
    assert found["redelivery_scheduler_needed"] == needed
