"""The metrics of a streaming query that a worker does not have."""

import pytest
from prometheus_client import CollectorRegistry

from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.consumers.telemetry.observers import MicroBatch, QueryState

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
    assert [value(f"micro_batch_seconds_{end}") for end in ("count", "sum")] == [1, 0.5]
    assert [value(f"micro_batch_records_{end}") for end in ("count", "sum")] == [1, 10]
