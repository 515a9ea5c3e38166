"""Wherever a process dies that meets a topic that was created again, all records of the new topic are handled."""

import pytest

from tests.crash.crashing import trapped
from tests.scenarios.running import SIGKILLED, Group, Process, Role, exactly, script
from tests.scenarios.topology.test_topic_created_again import KEPT, create_again
from tests.scenarios.waiting import LONG_S, until

OTHER: dict[Role, Role] = {"worker": "scheduler", "scheduler": "worker"}
OLDER, NEW = range(100), range(1000, 1200)


def topic_of(group: Group, role: Role) -> str:
    """Return the topic that is created again."""
    return group.source if role == "worker" else group.tier("200ms")


def send(group: Group, numbers: range) -> None:
    """Send records that fail once."""
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 2) for n in numbers])


def create(group: Group, role: Role) -> None:
    """Create the topic again; the new one of a source has the new records."""
    create_again(group, topic_of(group, role), KEPT if role == "scheduler" else None)
    send(group, NEW)


def await_death(process: Process) -> None:
    """Wait until the process has died in its trap."""
    assert process.wait(LONG_S) == SIGKILLED


@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize("role", ["worker", "scheduler"])
@pytest.mark.parametrize("trap", ["look:before:1", "look:after:1", "commit:before:1", "note:before:1", "note:after:1"])
def test_between_two_runs(group: Group, role: Role, trap: str) -> None:
    """Each record has one output."""
    group.prepare(journal=True)
    first = [group.start(role, "one"), group.start(OTHER[role], "other")]
    send(group, OLDER)
    until(lambda: group.outputs() == exactly(OLDER), "the older records are handled")
    group.settle()
    for process in first:
        process.stop()
    create(group, role)
    other = group.start(OTHER[role], "other")
    if role == "scheduler":
        until(lambda: sum(group.cluster.ends(group.tier("200ms")).values()) >= len(NEW), "the new records have failed")
    dying, mark = trapped(group, role, f"{trap}:die")
    await_death(dying)
    assert mark.exists()
    again = group.start(role, "one")
    until(lambda: group.outputs() == exactly([*OLDER, *NEW]), "the new records are handled")
    assert again.running
    assert other.running
    group.stop()
    assert group.outputs() == exactly([*OLDER, *NEW])


@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize("role", ["worker", "scheduler"])
@pytest.mark.parametrize("trap", ["restart:before:1", "restart:after:1"])
def test_while_it_runs(group: Group, role: Role, trap: str) -> None:
    """Those that were read before it noticed the new topic may be handled twice."""
    group.prepare(journal=True)
    dying, mark = trapped(group, role, f"{trap}:die")
    other = group.start(OTHER[role], "other")
    send(group, OLDER)
    until(lambda: group.outputs() == exactly(OLDER), "the older records are handled")
    group.settle()
    create(group, role)
    await_death(dying)
    assert mark.exists()
    again = group.start(role, "one")
    until(lambda: group.outputs().keys() == {*OLDER, *NEW}, "the new records are handled")
    assert again.running
    assert other.running
    group.stop()


@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize("trap", ["save:before:1", "save:after:1"])
def test_at_its_end(group: Group, trap: str) -> None:
    """The saved position is one of the older topic."""
    group.prepare()
    dying, mark = trapped(group, "worker", f"{trap}:die")
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in OLDER])
    until(lambda: group.outputs() == exactly(OLDER), "the older records are handled")
    dying.begin_to_stop()
    await_death(dying)
    assert mark.exists()
    create_again(group, group.source)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in NEW])
    worker = group.start("worker", "one")
    until(lambda: group.outputs() == exactly([*OLDER, *NEW]), "the new records are handled")
    worker.stop()
