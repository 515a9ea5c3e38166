"""A process that is suspended until others have taken over, and then resumed, writes nothing twice, and goes on."""

import os
import signal

import pytest

from tests.crash.crashing import joined, stopped, trapped
from tests.crash.load import SHORT_SESSION, SHORT_SESSION_CONSUMER, scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.running import Group, Role
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_NUMBER = 60
_RENAMED = "this one goes on with transactional.id "
_STEPS = {
    "worker": ["produce:after:8", "offsets:after:3", "commit:before:3", "commit:after:3", "fetch:after:4"],
    "scheduler": ["produce:after:8", "offsets:after:3", "commit:before:3", "fetch:after:4"],
}
_SAMPLE = ("worker", "offsets:after:3")
_CASES = [
    pytest.param(
        role, step, SHORT_SESSION, id=f"{role}-{step}", marks=[] if (role, step) == _SAMPLE else pytest.mark.full
    )
    for role, steps in _STEPS.items()
    for step in steps
] + [
    pytest.param(role, step, SHORT_SESSION_CONSUMER, id=f"{role}-{step}-consumer", marks=pytest.mark.full)
    for role in _STEPS
    for step in ("offsets:after:3", "fetch:after:4")
]


@pytest.mark.parametrize(("role", "step", "kafka"), _CASES)
def test_stopped_until_others_have_done_its_work(group: Group, role: Role, step: str, kafka: dict[str, object]) -> None:
    """Resumed inside or between two writes it is fenced: it joins the group again and continues."""
    group.prepare(**settings(kafka=kafka))
    group.send(scripts(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    zombie, mark = trapped(group, role, f"{step}:stop")
    until(lambda: mark.exists() and stopped(zombie), f"the process is suspended at {step}")
    other = group.start(role, "two")
    until(lambda: len(group.cluster.members(joined(group, role))) == 1, "the other one has all partitions")
    group.settle()
    os.kill(zombie.pid, signal.SIGCONT)
    group.send(scripts(_NUMBER, first=_NUMBER), first=_NUMBER)
    until(lambda: not zombie.running or _members(group, role) == 2, "the resumed process has joined again")
    group.settle()
    assert zombie.running, zombie.log[-3000:]
    assert other.running
    group.stop()
    assert_exactly_once(group, 2 * _NUMBER)


@pytest.mark.full
@pytest.mark.parametrize("kafka", [SHORT_SESSION, SHORT_SESSION_CONSUMER], ids=["classic", "consumer"])
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_two_of_one_name(group: Group, role: Role, kafka: dict[str, object]) -> None:
    """The older of two processes with one name, suspended inside a write, goes on without it when it is resumed."""
    group.prepare(**settings(kafka=kafka))
    group.send(scripts(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    older, mark = trapped(group, role, "offsets:after:3:stop")
    until(lambda: mark.exists() and stopped(older), "the process is suspended")
    newer = group.start(role, "one")
    group.settle()
    os.kill(older.pid, signal.SIGCONT)
    until(lambda: _RENAMED in older.log, "the older one is fenced")
    group.send(scripts(_NUMBER, first=_NUMBER), first=_NUMBER)
    group.settle()
    assert older.log.count(_RENAMED) == 1, "the newer one keeps the transactional id"
    assert (older.running, newer.running) == (True, True)
    group.stop()
    assert_exactly_once(group, 2 * _NUMBER)


def _members(group: Group, role: Role) -> int:
    members = group.cluster.members(joined(group, role))
    return len(members) if all(members.values()) else 0
