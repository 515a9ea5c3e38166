"""A handler that takes longer than max.poll.interval.ms does not get its worker evicted."""

import time

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

_INTERVAL_S = 6
_HANDLER_S = 11


@pytest.mark.slow
def test_a_slow_handler_keeps_its_worker_in_the_group(group: Group) -> None:
    """The member id stays the same all the time, and the record is handled once."""
    group.prepare(
        kafka={
            "max.poll.interval.ms": _INTERVAL_S * 1000,
            "session.timeout.ms": _INTERVAL_S * 1000,
            "heartbeat.interval.ms": 500,  # so that one that is late does not end the session
        },
        limits={"rebalanceTimeout": "2s"},
    )
    # Without a stable instance name, an eviction would end the membership for good.
    group.worker(None)
    group.send([["ok"]] * 10)
    group.settle()
    members = group.cluster.members(group.name)
    assert len(members) == 1
    group.send([[f"sleep {_HANDLER_S}"]], first=10)
    group.send([["ok"]] * 10, first=11)

    began = until(lambda: [call for call in group.deliveries.began() if call.n == 10], "the slow call begins")[0]
    while time.time() < began.at_s + _INTERVAL_S + 3:
        assert group.cluster.members(group.name) == members
        time.sleep(0.5)
    group.settle()
    assert group.cluster.members(group.name) == members
    group.stop()

    assert group.deliveries.counts() == exactly(range(21))
    assert group.outputs() == exactly(range(21))
