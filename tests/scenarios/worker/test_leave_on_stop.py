"""With ``leaveOnStop`` the partitions of a stopped process go to others immediately, although its name is stable."""

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import LONG_S, until

_SESSION = {"session.timeout.ms": 280_000}
SOON_S = LONG_S
"""Far below the session time-out."""


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_others_take_the_partitions_of_a_stopped_process(group: Group, strategy: str) -> None:
    """Workers and schedulers. A record that is being handled is finished or handled by the other worker."""
    group.prepare(partitions=4, leaveOnStop=True, kafka=_SESSION | {"partition.assignment.strategy": strategy})
    groups = {"worker": group.name, "scheduler": f"{group.name}.scheduler"}
    processes = {role: [group.start(role, f"{role}{n}") for n in range(2)] for role in ("worker", "scheduler")}
    for name in groups.values():
        until(lambda: sum(map(bool, group.cluster.members(name).values())) == 2, f"two of {name} have partitions")  # noqa: B023
    group.send([["sleep 0.1"], ["raise", "ok"]] * 20)
    for role, name in groups.items():
        processes[role][1].stop()
        until(lambda: list(group.cluster.members(name)) == [f"{name}.{role}0"], f"{role}1 left", within_s=SOON_S)  # noqa: B023
    group.send([["ok"], ["raise", "ok"]] * 20, first=40)
    group.settle(SOON_S)
    assert group.outputs() == exactly(range(80))
    group.stop()


def test_a_killed_process_keeps_its_place(group: Group) -> None:
    """It continues under its name without waiting for its session."""
    group.prepare(leaveOnStop=True, kafka=_SESSION)
    worker = group.worker()
    group.send([["ok"]] * 5)
    group.settle()
    worker.kill()
    group.worker()
    group.send([["ok"]] * 5, first=5)
    group.settle(SOON_S)
    assert group.outputs() == exactly(range(10))
    group.stop()
