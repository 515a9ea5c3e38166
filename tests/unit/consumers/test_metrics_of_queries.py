"""What the endpoint says of a streaming query beside what it says of a worker."""

import pytest
from prometheus_client import CollectorRegistry

from consumers.metrics import Build, Measurements
from consumers.observer import MicroBatch, QueryState

NOW_MS = 1_780_000_100_250


@pytest.mark.parametrize("at_it", [False, True])
def test_a_query_that_rests_makes_progress(*, at_it: bool) -> None:
    """As one does that has just finished a micro-batch; one that is at it for long does not, though it is alive."""
    now_ms = NOW_MS
    found = Measurements(Build("1.2.3", "stream", "billing", "q1"), lambda: now_ms)
    registry = CollectorRegistry()
    registry.register(found)

    def told(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"redelivery_{name}", {"group": "billing", "role": "stream", **labels})

    found.micro_batch(MicroBatch(0.5, 10, {"orders": 7}))
    now_ms += 60_000
    found.query(QueryState(assigned=3, resting=not at_it, lag={"orders": 11}))
    assert told("query_progress_timestamp_seconds") == (NOW_MS if at_it else now_ms) / 1000
    assert told("alive_timestamp_seconds") == now_ms / 1000
    assert told("behind_latest_offsets", topic="orders") == 7
    assert told("lag", topic="orders") == 11
    assert told("assigned_partitions") == 3
    assert [told(f"micro_batch_seconds_{end}") for end in ("count", "sum")] == [1, 0.5]
    assert [told(f"micro_batch_records_{end}") for end in ("count", "sum")] == [1, 10]
