"""A scheduler that is killed repeatedly while it releases records neither loses nor duplicates a record."""

import pytest

from tests.scenarios.running import Group, exactly

_NUMBER = 600


@pytest.mark.crash
def test_a_killed_scheduler_loses_and_doubles_nothing(group: Group) -> None:
    """After three kills every record has been released as often as required, and nothing is pending."""
    group.prepare(
        handler={"slots": 2},
        limits={"batch": 20, "bufferRecords": 200},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 400}
        },
    )
    dead = {n for n in range(_NUMBER) if n % 10 == 0}
    group.worker()
    group.send(["raise"] if n in dead else ["raise", "raise", "ok"] for n in range(_NUMBER))
    scheduler = group.scheduler()
    with group.cluster.follow(group.ready) as tail:
        for part in (0.2, 0.8, 1.2):
            tail.reach(int(part * _NUMBER))
            scheduler.kill()
            assert tail.count() < 2 * _NUMBER, "the kill came too late to prove anything"
            scheduler = group.scheduler()
    group.settle()
    group.stop()

    assert group.outputs() == exactly(set(range(_NUMBER)) - dead)
    assert group.dead() == exactly(dead)
    assert group.deliveries.counts() == dict.fromkeys(range(_NUMBER), 3)
    assert len(group.cluster.read(group.ready)) == 2 * _NUMBER
    assert group.pending() == []
