"""A scheduler resumes a partition that was paused, revoked and assigned again."""

import pytest

from tests.scenarios.running import Group
from tests.scenarios.waiting import until


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_second_scheduler_comes_and_goes(group: Group, strategy: str) -> None:
    """The buffer is full, so the client has paused the partition and keeps that state beyond the assignment."""
    group.prepare(
        kafka={"partition.assignment.strategy": strategy},
        limits={"bufferRecords": 20, "batch": 20},
        policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 9000, "redeliveryDelay": 9000}},
    )
    schedulers = f"{group.name}.scheduler"
    group.scheduler("a")
    group.worker("w")
    until(lambda: len(group.cluster.members(schedulers)) == 1, "the first has joined")
    group.send([["raise", "ok"]] * 200)
    until(lambda: len(group.cluster.read(group.tier("9s"))) == 200, "all records wait")
    second = group.scheduler(None)
    until(lambda: len(group.cluster.members(schedulers)) == 2, "the second has joined")
    second.stop()
    until(lambda: len(group.cluster.members(schedulers)) == 1, "the second has left")

    until(lambda: sum(group.outputs().values()) == 200, "all are released")
