"""A worker killed at any step of the outage of what its handler calls neither loses nor duplicates a record."""

import pytest

from tests.crash.crashing import ended, trapped
from tests.crash.load import SHORT_SESSION, settings
from tests.crash.points import EAGER
from tests.crash.verdict import judge
from tests.scenarios.handlers import BANK_AWAY, BANK_CALLS
from tests.scenarios.running import SIGKILLED, Group
from tests.scenarios.waiting import LONG_S, until

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_BANK = {"unavailable": ["tests.scenarios.handlers:BankDownError"], "firstPause": "300ms", "longestPause": "1s"}
_ASKED = {**_BANK, "probe": "tests.scenarios.handlers:bank_answers"}
_FIRST, _MORE = 60, 240

_WHILE_AWAY = (
    "met:before:1",
    "met:after:1",
    "publish open:before:1",
    "publish open:after:1",
    "open:after:1",
    "open:after:20",
    "half open:before:1",
    "half open:before:4",
    "met:before:9",
    "met:after:9",
    "publish open:after:3",
    "ask:before:1",
    "ask:after:1",
    "call probe:before:1",
    "call probe:after:1",
)
_WHEN_BACK = (
    "answered:before:1",
    "publish closed:before:1",
    "publish closed:after:1",
    "answered:after:1",
    "ramping:after:1",
    "ramping:after:6",
)
"""What a step is, is in :func:`tests.crash.program.trap_outages`."""

_SAMPLE = "ramping:after:1"


def _calls(group: Group) -> int:
    """How often the bank was called while it was away."""
    calls = group.folder / BANK_CALLS
    return calls.read_text().count(" 1\n") if calls.exists() else 0


def _killed_at(step: str, group: Group) -> None:
    """Let one of two workers die at a step, and start it again; in the end the bank is back."""
    away, back_first = group.folder / BANK_AWAY, step in _WHEN_BACK
    bank = _ASKED if step.startswith(("ask", "call probe")) else _BANK
    # Of each topic both get half of the partitions.
    kafka = SHORT_SESSION | {"partition.assignment.strategy": EAGER}
    sections = settings(kafka=kafka, handler={"slots": 4, "ordering": "key"}, dependencies={"bank": bank})
    source = {"topic": group.source, "value": {"format": "json"}, "dependencies": ["bank"]}
    group.prepare(partitions=4, sources=[source], **sections)
    group.start("scheduler", "other")
    dying, mark = trapped(group, "worker", f"{step}:die")
    group.worker("two")
    members = group.cluster.members
    until(lambda: len(found := members(group.name)) == 2 and all(found.values()), "both have partitions")
    call = f"bank {away}"
    group.send([[call]] * _FIRST)
    until(lambda: sum(group.outputs().values()) > 5, "some outputs are written")
    away.touch()
    group.send([["raise", call] if n % 10 == 0 else [call] for n in range(_MORE)], first=_FIRST)
    if back_first:
        until(lambda: _calls(group) > 5, "the bank was called")
        away.unlink()
    code = dying.wait(LONG_S)
    assert (code, mark.exists()) == (SIGKILLED, True), f"ended with {code} instead of dying at {step}"
    again = group.start("worker", "one")
    if not back_first:
        until(lambda: "is away" in again.own_log or " reads " in again.own_log, "its successor has started")
        away.unlink()
    group.settle()
    assert again.running, again.log[-3000:]
    group.stop()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(
            each, marks=[] if each == _SAMPLE else pytest.mark.full, id=each.replace(" ", "-").replace(":", "-")
        )
        for each in (*_WHILE_AWAY, *_WHEN_BACK)
    ],
)
def test_death_at(group: Group, step: str) -> None:
    """No record is lost, doubled, dead or waits for ever, and none has spent an attempt for it."""
    with ended(group):
        _killed_at(step, group)
        verdict = judge(group, outputs=set(range(_FIRST + _MORE)), dead=set())
        assert (verdict.lost, verdict.doubled, verdict.pending) == (0, 0, 0), verdict.details
        attempts = group.deliveries.attempts()
        raised = {_FIRST + n for n in range(_MORE) if n % 10 == 0}
        assert all(set(found) <= ({1, 2} if n in raised else {1}) for n, found in attempts.items())
