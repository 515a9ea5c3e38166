"""In mode auto a killed worker loses nothing; what it had not committed is done again."""

import pytest

from tests.scenarios.running import Group

_NUMBER = 400


@pytest.mark.crash
def test_auto_is_at_least_once(group: Group) -> None:
    """After kills of worker and scheduler every record is in the outputs or the dead letters at least once."""
    group.prepare(
        mode="auto",
        handler={"slots": 2},
        limits={"batch": 20, "bufferRecords": 200},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}
        },
    )
    dead = {n for n in range(_NUMBER) if n % 5 == 0}
    scheduler, worker = group.scheduler(), group.worker()
    group.send(["raise"] if n in dead else ["raise", "ok"] for n in range(_NUMBER))
    with group.cluster.follow(group.output) as tail:
        for part in (0.1, 0.4):
            tail.reach(int(part * (_NUMBER - len(dead))))
            worker.kill()
            scheduler.kill()
            assert tail.count() < _NUMBER - len(dead), "the kill came too late to prove anything"
            scheduler, worker = group.scheduler(), group.worker()
    group.settle()
    group.stop()

    outputs, letters = group.outputs(), group.dead()
    assert set(outputs) == set(range(_NUMBER)) - dead
    assert set(letters) == dead
