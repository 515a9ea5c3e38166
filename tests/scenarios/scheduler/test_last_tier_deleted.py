"""A scheduler goes on when the last tier of its group is deleted, and reads it when it is there again."""

import time

import pytest

from tests.scenarios.running import Group
from tests.scenarios.waiting import until

_THREE_LOOKS_S = 16.0
_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}}


@pytest.mark.long
def test_the_last_tier_is_deleted(group: Group) -> None:
    """An empty tier may be deleted, `redelivery topology check` says."""
    group.prepare(policyEntry=_POLICY)
    scheduler = group.scheduler()
    until(lambda: group.cluster.members(f"{group.name}.scheduler"), "the scheduler has joined")
    group.cluster.delete(group.tier("200ms"))
    time.sleep(_THREE_LOOKS_S)
    assert scheduler.running, scheduler.own_log[-3000:]
    group.apply()
    group.worker()
    group.send([["raise", "ok"]])
    until(lambda: group.outputs() == {0: 1}, "the record is released")
