"""The summary of samples, and the conditions under which a run fails."""

import pytest

from tests.bench.result import Lateness, Result
from tests.bench.tiers import allowed_hops


def test_quantiles_are_samples() -> None:
    """The p-th percentile is the smallest sample that p percent of the samples do not exceed."""
    late = Lateness.of([float(each) for each in range(100, 0, -1)])
    assert (late.p50, late.p90, late.p99, late.max, late.early, late.count) == (50, 90, 99, 100, 0, 100)


def test_early_ones_are_counted_during_the_warm_up_too() -> None:
    """The warm-up is left out of the percentiles, but its early records count."""
    late = Lateness.of([-1.0, 900.0, 3.0, 4.0], warm_up=2)
    assert (late.max, late.count, late.early) == (4, 2, 1)


@pytest.mark.parametrize(
    ("mode", "lost", "doubled", "faults"),
    [
        ("transacted", 0, 0, []),
        ("transacted", 1, 2, ["1 lost", "2 doubled"]),
        ("auto", 0, 2, []),
        ("auto", 1, 0, ["1 lost"]),
    ],
)
def test_what_fails_a_run(mode: str, lost: int, doubled: int, faults: list[str]) -> None:
    """A lost record fails a run in any mode, a doubled one in mode transacted."""
    assert Result(workload="W0", mode=mode, params={}, lost=lost, doubled=doubled).faults == faults


def test_an_early_record_fails_a_run() -> None:
    """An early record fails a run in any mode."""
    assert Result(workload="W1", mode="auto", params={}, lateness=Lateness.of([-0.1, 1])).faults == ["1 early"]


@pytest.mark.parametrize(("delay_ms", "hops"), [(1, 2), (1000, 2), (1001, 3), (2000, 3), (3000, 4), (8000, 5)])
def test_allowed_hops(delay_ms: int, hops: int) -> None:
    """2 + log2(delay / smallest tier), rounded up; 2 for delays below the smallest tier."""
    assert allowed_hops(delay_ms) == hops
