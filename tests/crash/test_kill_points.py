"""A worker or scheduler killed at any step and restarted neither loses nor duplicates a record."""

from collections.abc import Callable

import pytest

from tests.crash.crashing import Crash
from tests.crash.points import POINTS, SAMPLE, KillPoint


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.parametrize(
    "point", [pytest.param(p, id=str(p), marks=[] if p in SAMPLE else pytest.mark.full) for p in POINTS]
)
def test_death_at(
    point: KillPoint, crashed: Callable[[KillPoint], Crash], record_property: Callable[[str, object], None]
) -> None:
    """Every record ends exactly once; in the modes without transactions at least once."""
    crash = crashed(point)
    verdict = crash.verdict
    record_property("crash", [str(point), point.mode, verdict.lost, verdict.doubled, crash.seconds])

    assert verdict.pending == 0
    assert verdict.lost == 0, verdict.details
    assert point.mode != "transacted" or verdict.doubled == 0, verdict.details
