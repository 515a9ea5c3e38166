"""A worker that is killed repeatedly in the middle of its work neither loses nor duplicates a record."""

import pytest

from tests.scenarios.running import Group, exactly

_NUMBER = 1200
_SCRIPTS = {0: ["raise", "raise", "ok"], 1: ["reject"], 2: ["raise"], 3: ["raise", "reject"]}


@pytest.mark.crash
def test_a_killed_worker_loses_and_doubles_nothing(group: Group) -> None:
    """After three kills every record is in the outputs or the dead letters exactly once, and nothing is pending."""
    group.prepare(
        partitions=4,
        handler={"slots": 2},
        limits={"batch": 50, "bufferRecords": 400},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 100, "redeliveryDelay": 300}
        },
    )
    dead = {n for n in range(_NUMBER) if n % 10 in {1, 2, 3}}
    group.scheduler()
    worker = group.worker()
    group.send(_SCRIPTS.get(n % 10, ["ok"]) for n in range(_NUMBER))
    with group.cluster.follow(group.output) as tail:
        for part in (0.1, 0.3, 0.5):
            tail.reach(int(part * (_NUMBER - len(dead))))
            worker.kill()
            assert len(tail.records) < _NUMBER - len(dead), "the kill came too late to prove anything"
            worker = group.worker()
    group.settle()
    group.stop()

    assert group.outputs() == exactly(set(range(_NUMBER)) - dead)
    assert group.dead() == exactly(dead)
    assert group.pending() == []
