"""SIGTERM during a call longer than the shutdown time-out ends the worker in time, and no record is lost."""

import time

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

_SHUTDOWN_S = 4
_LATEST_S = 20
"""The end of a worker takes long on a busy machine; by default it would wait for 25 s."""


@pytest.mark.parametrize("handler", ["scripted", pytest.param("scripted_async", marks=pytest.mark.long)])
def test_a_shutdown_does_not_wait_for_a_handler_for_ever(group: Group, handler: str) -> None:
    """The worker ends with 0 by its deadline; the next one delivers the record again, uncounted."""
    group.prepare(
        handler={"callable": f"tests.scenarios.handlers:{handler}", "slots": 2},
        limits={"shutdownTimeout": f"{_SHUTDOWN_S}s", "rebalanceTimeout": "2s"},
    )
    group.send([["ok"]] * 20)
    group.send([["stall 60"]], first=20)
    group.send([["ok"]] * 20, first=21)
    worker = group.worker()
    until(lambda: 20 in group.deliveries.counts(), "the long call begins")
    asked = time.monotonic()
    worker.stop(within_s=_LATEST_S)
    assert time.monotonic() - asked < _LATEST_S
    assert 20 not in group.outputs()

    group.scheduler()
    group.worker()
    group.settle()
    group.stop()
    assert group.deliveries.attempts()[20] == [1, 1]
    assert group.outputs() == exactly(range(41))
    assert group.dead() == {}
    assert group.cluster.read(group.tier("200ms")) == []
