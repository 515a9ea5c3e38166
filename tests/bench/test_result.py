"""What a result says of the samples, and when a run has failed."""

import pytest

from tests.bench.result import Lateness, Result
from tests.bench.tiers import allowed_hops


def test_quantiles_are_samples() -> None:
    """A percentile is the smallest sample that so many percent do not exceed."""
    late = Lateness.of([float(each) for each in range(100, 0, -1)])
    assert (late.p50, late.p90, late.p99, late.max, late.early, late.count) == (50, 90, 99, 100, 0, 100)


def test_early_ones_are_counted_during_the_warm_up_too() -> None:
    """The first samples are left out of the quantiles, but not of the promise."""
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
    """A lost record in any mode, a doubled one where each is promised once."""
    assert Result(workload="W0", mode=mode, params={}, lost=lost, doubled=doubled).faults == faults


def test_an_early_record_fails_a_run() -> None:
    """In any mode."""
    assert Result(workload="W1", mode="auto", params={}, lateness=Lateness.of([-0.1, 1])).faults == ["1 early"]


@pytest.mark.parametrize(("delay_ms", "hops"), [(1, 2), (1000, 2), (1001, 3), (2000, 3), (3000, 4), (8000, 5)])
def test_allowed_hops(delay_ms: int, hops: int) -> None:
    """2 + log2(delay / smallest tier), rounded up; what is below the smallest tier has two."""
    assert allowed_hops(delay_ms) == hops
