"""A process that stands still until others have done its work, and then goes on, writes nothing that anybody sees."""

import os
import signal

import pytest

from cli import exit_codes
from tests.crash.crashing import joined, stopped, trapped
from tests.crash.load import HASTY, HASTY_NEW, scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.running import Group, Role
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_NUMBER = 60
_PLACES = {
    "worker": ["produce:after:8", "offsets:after:3", "commit:before:3", "commit:after:3", "fetch:after:4"],
    "scheduler": ["produce:after:8", "offsets:after:3", "commit:before:3", "fetch:after:4"],
}
_SAMPLE = ("worker", "offsets:after:3")
_CASES = [
    pytest.param(role, place, HASTY, id=f"{role}-{place}", marks=[] if (role, place) == _SAMPLE else pytest.mark.full)
    for role, places in _PLACES.items()
    for place in places
] + [
    pytest.param(role, place, HASTY_NEW, id=f"{role}-{place}-consumer", marks=pytest.mark.full)
    for role in _PLACES
    for place in ("offsets:after:3", "fetch:after:4")
]


@pytest.mark.parametrize(("role", "place", "kafka"), _CASES)
def test_stopped_until_others_have_done_its_work(
    group: Group, role: Role, place: str, kafka: dict[str, object]
) -> None:
    """Woken inside or between two writes it is fenced: it ends, halted, or has joined again and works on."""
    group.prepare(**settings(kafka=kafka))
    group.send(scripts(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    zombie, mark = trapped(group, role, f"{place}:stop")
    until(lambda: mark.exists() and stopped(zombie), f"it stands still at {place}")
    other = group.start(role, "two")
    until(lambda: len(group.cluster.members(joined(group, role))) == 1, "the other has everything")
    group.settle()
    os.kill(zombie.pid, signal.SIGCONT)
    group.send(scripts(_NUMBER, first=_NUMBER), first=_NUMBER)
    until(lambda: not zombie.running or _members(group, role) == 2, "it has ended, or joined again")
    if not zombie.running:
        assert zombie.wait(1) == exit_codes.HALTED
    group.settle()
    assert other.running
    group.stop()
    assert_exactly_once(group, 2 * _NUMBER)


@pytest.mark.parametrize(
    "role", [pytest.param("worker", marks=pytest.mark.full), pytest.param("scheduler", marks=pytest.mark.full)]
)
def test_two_of_one_name(group: Group, role: Role) -> None:
    """The older of two processes with one transactional id stood still inside a write; it ends, halted."""
    group.prepare(**settings(kafka=HASTY))
    group.send(scripts(_NUMBER))
    group.start("scheduler" if role == "worker" else "worker", "other")
    older, mark = trapped(group, role, "offsets:after:3:stop")
    until(lambda: mark.exists() and stopped(older), "it stands still")
    newer = group.start(role, "one")
    group.settle()
    os.kill(older.pid, signal.SIGCONT)
    assert older.wait(45) == exit_codes.HALTED
    group.send(scripts(_NUMBER, first=_NUMBER), first=_NUMBER)
    group.settle()
    assert newer.running
    group.stop()
    assert_exactly_once(group, 2 * _NUMBER)


def _members(group: Group, role: Role) -> int:
    members = group.cluster.members(joined(group, role))
    return len(members) if all(members.values()) else 0
