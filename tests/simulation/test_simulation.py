"""A small group in the simulation: it gives the same result each time, and shows what is known of real groups."""

from dataclasses import replace

import pytest

from tests.simulation.calibration import MEASURED, lateness
from tests.simulation.scenario import Measured, Run, Scenario

_SMALL = Scenario(workers=6, schedulers=2, sources=3, partitions=8, brokers=2, call_s=0.05, warm_up_s=1.5, seconds=2.0)


def _measured(scenario: Scenario) -> Measured:
    return replace(Run(scenario).measure(), cpu_s=0.0)


def test_the_same_seed_gives_the_same_run() -> None:
    """Nothing depends on the real clock, on threads or on hashes."""
    short = replace(_SMALL, warm_up_s=0.5, seconds=0.5)
    found = _measured(short)
    assert found == _measured(short)
    assert found != _measured(replace(short, seed=2))


def test_a_group_with_room_redelivers_everything_on_time() -> None:
    """Redeliveries come, none is early, and what arrives is handled."""
    found = _measured(_SMALL)
    assert found.redeliveries_per_s > 0.05 * _SMALL.records_per_s
    assert found.handled_per_s == pytest.approx(_SMALL.records_per_s * 1.1, rel=0.2)
    assert found.early == 0
    assert 0 < found.lateness["p50"] < 50
    assert sum(found.calls_by_worker) > 0


def test_too_few_ready_partitions_hold_redeliveries_back() -> None:
    """A partition of the ready topic is one lane: two lanes of 0.2 s make ten calls a second, and 17 are needed."""
    slow = replace(_SMALL, sources=1, partitions=24, call_s=0.2, load=0.55, fail_ratio=0.25, seconds=4.0)
    wide, narrow = _measured(slow), _measured(replace(slow, ready_partitions=2))
    assert narrow.lateness["p50"] > 5 * wide.lateness["p50"]
    assert narrow.redeliveries_per_s < 12


@pytest.mark.long
def test_wide_releases_are_later_than_narrow_ones() -> None:
    """As measured: each partition of a write costs a request and a marker."""
    narrow, wide = (lateness(case, seconds=0.3)["p50"] for case in MEASURED[1:])
    assert narrow < 60
    assert wide > 3 * narrow
