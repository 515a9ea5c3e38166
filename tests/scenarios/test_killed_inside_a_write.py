"""A worker or scheduler that dies at any step of a transaction loses and doubles nothing."""

import pytest

from tests.scenarios.dying import PROGRAM, STEPS
from tests.scenarios.running import SIGKILLED, Group, Role, exactly

_NUMBER = 200


@pytest.mark.crash
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_death_at_every_step_of_a_transaction(group: Group, role: Role) -> None:
    """One process after the other dies at the next step; the last one finds everything as it must be."""
    group.prepare(
        handler={"slots": 2},
        limits={"batch": 10, "bufferRecords": 100},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
        },
    )
    dead = {n for n in range(_NUMBER) if n % 5 == 0}
    group.send(["raise"] if n in dead else ["raise", "ok"] for n in range(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    for step in STEPS:
        dying = group.start(role, "one", program=(*PROGRAM, step, "2"))
        assert dying.wait(30) == SIGKILLED, f"it did not get as far as {step} of its second write"
    group.start(role, "one")
    group.settle()
    group.stop()

    assert group.outputs() == exactly(set(range(_NUMBER)) - dead)
    assert group.dead() == exactly(dead)
