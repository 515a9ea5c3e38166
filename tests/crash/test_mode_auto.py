"""In mode auto a killed worker or scheduler loses no record and repeats what it had not committed."""

import pytest

from tests.crash.crashing import trapped
from tests.scenarios.running import SIGKILLED, Group, Role
from tests.scenarios.waiting import LONG_S

_NUMBER = 200


@pytest.mark.crash
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_auto_is_at_least_once(group: Group, role: Role) -> None:
    """Offsets are committed only after the records are written, so dying before or after a flush loses no record."""
    group.prepare(
        mode="auto",
        handler={"slots": 2},
        limits={"batch": 10, "bufferRecords": 100},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
        },
    )
    dead = {n for n in range(_NUMBER) if n % 5 == 0}
    group.send(["raise"] if n in dead else ["raise", "ok"] for n in range(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    for when in ("before", "after"):
        dying, _ = trapped(group, role, f"flush:{when}:3:die")
        assert dying.wait(LONG_S) == SIGKILLED, f"the process ended before it died {when} its third flush"
    group.start(role, "one")
    group.settle()
    group.stop()

    assert set(group.outputs()) == set(range(_NUMBER)) - dead
    assert set(group.dead()) == dead
    # The second death comes between flush and commit, so some records are written twice.
    written = group.cluster.read(group.tier("100ms"), group.ready, group.output, group.dead_letters)
    assert len(written) > 3 * _NUMBER
