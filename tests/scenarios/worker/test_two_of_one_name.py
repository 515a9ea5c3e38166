"""Two processes of one configured name share the work: neither ends, and the newer one keeps the name."""

from typing import Any

import pytest

from tests.scenarios.running import SHORT_SESSION, Group, Role, exactly
from tests.scenarios.waiting import until
from tests.scenarios.watched_transactions import PROGRAM, WITH_OFFSETS, WITHOUT_OFFSETS

_NUMBER = 400
_RENAMED = "this one goes on with transactional.id "


def _both_have_partitions(group: Group, joined: str) -> bool:
    members = group.cluster.members(joined)
    return len(members) == 2 and all(members.values())


@pytest.mark.parametrize("role", ["worker", "scheduler"])
@pytest.mark.parametrize(
    "client",
    [SHORT_SESSION, {"group.protocol": "consumer"}],
    ids=["classic", "consumer"],
)
def test_both_run_at_once(group: Group, role: Role, client: dict[str, Any]) -> None:
    """The older one joins the group again without the name; every record is written once."""
    group.prepare(partitions=2, kafka=client)
    group.start("scheduler" if role == "worker" else "worker", "other")
    joined = group.name if role == "worker" else f"{group.name}.scheduler"
    older = group.start(role, "same", program=PROGRAM)
    until(lambda: len(group.cluster.members(joined)) == 1, "the older one has joined")
    group.send(["raise", "ok"] if n % 2 else ["sleep 0.01"] for n in range(_NUMBER))
    until(lambda: sum(group.outputs().values()) > 20, "writes are under way")
    newer = group.start(role, "same", program=PROGRAM)
    until(lambda: _both_have_partitions(group, joined), "both have partitions")
    group.send((["raise", "ok"] for _ in range(_NUMBER)), first=_NUMBER)
    group.settle()
    assert (older.running, newer.running) == (True, True)
    assert newer.log.count(_RENAMED) == 1, "both write one log, and only the older one is fenced"
    assert "'instance'" in newer.log
    assert newer.log.count(WITH_OFFSETS) > 1
    assert WITHOUT_OFFSETS not in newer.log, "a member without its partitions could commit it"
    group.stop()
    assert group.outputs() == exactly(range(2 * _NUMBER))
