"""Wherever a scheduler dies that acts on waiting records for an operator, each record is delivered once."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.crash.crashing import joined, stopped, trapped
from tests.crash.load import SHORT_SESSION
from tests.crash.verdict import judge
from tests.scenarios.commands import Done, in_process
from tests.scenarios.running import SIGKILLED, Group, exactly
from tests.scenarios.waiting import LONG_S, until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full]

Record = Callable[[str, object], None]

_NUMBER: Final = 24
_CHOSEN: Final = frozenset(range(0, _NUMBER, 2))
"""The records that are delivered now; the others stay until all are."""

_READS: Final = " reads "
_TRAPS: Final = {
    "read": "offsets:before:1",
    "copied in part": "produce:after:2",
    "before its commit": "commit:before:1",
    "after its commit": "commit:after:1",
    "half applied": "commit:before:3",
}


def _prepare(group: Group) -> None:
    """Let all records wait for ten minutes. A write about them has few, so that a request takes several."""
    group.prepare(
        policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 600_000, "redeliveryDelay": 600_000}},
        limits={"batch": 4, "bufferRecords": 100},
        kafka=SHORT_SESSION,
        journal=True,
    )
    group.worker()
    group.send([["raise", "ok"]] * _NUMBER, keys=_NUMBER)
    until(lambda: len(group.cluster.read(group.tier("10m"))) == _NUMBER, "all records wait")


def _waiting(group: Group, *arguments: str) -> Done:
    return in_process("waiting", *arguments, "--json", file=group.file)


def _deliver(group: Group, action: str = "deliver-now", within: str = "0s", numbers: Sequence[int] = ()) -> Done:
    """Ask for an action on the chosen records; without time nothing is waited for."""
    keys = [f"--key=k{n}" for n in numbers or sorted(_CHOSEN)]
    return _waiting(group, action, *keys, "--yes", "--timeout", within)


def _requests(group: Group) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(_waiting(group, "list").out)["requests"]
    return found


def _end(group: Group, name: str, started_s: float, record_property: Record) -> None:
    """Check that the chosen records are delivered once and no other; deliver all, and count."""
    until(lambda: group.outputs().keys() >= _CHOSEN, "the chosen records are delivered")
    until(lambda: not _requests(group), "the requests have ended")
    assert group.outputs() == exactly(_CHOSEN), "none is early that was not asked for"
    done = _waiting(group, "deliver-now", "--tier", "10m", "--yes", "--timeout", f"{LONG_S:g}s")
    assert done.code == 0, done.out + done.err
    group.settle()
    group.stop()
    verdict = judge(group, outputs=set(range(_NUMBER)), dead=set())
    record_property("crash", [name, "transacted", verdict.lost, verdict.doubled, time.monotonic() - started_s])
    assert (verdict.lost, verdict.doubled, verdict.pending) == (0, 0, 0), verdict.details


def test_no_scheduler_runs(group: Group, record_property: Record) -> None:
    """The request waits in Kafka for the next one."""
    started_s = time.monotonic()
    _prepare(group)
    asked = _deliver(group)
    assert asked.code == 1
    assert len(_requests(group)) == len(json.loads(asked.out)["requests"])
    group.scheduler()
    _end(group, "waiting-written", started_s, record_property)


@pytest.mark.parametrize("when", _TRAPS)
def test_the_scheduler_is_killed(group: Group, when: str, record_property: Record) -> None:
    """Its successor does what was not committed."""
    started_s = time.monotonic()
    _prepare(group)
    dying, mark = trapped(group, "scheduler", f"{_TRAPS[when]}:die")
    until(lambda: _READS in dying.log, "the scheduler reads")
    _deliver(group)
    assert dying.wait(LONG_S) == SIGKILLED
    assert mark.exists()
    group.start("scheduler", "one")
    _end(group, f"waiting-{when}", started_s, record_property)


@pytest.mark.parametrize("trap", ["commit:before:1", "commit:after:1"])
def test_the_owner_changes(group: Group, trap: str, record_property: Record) -> None:
    """The first owner is suspended in a write until the next one has done everything; then it writes nothing."""
    started_s = time.monotonic()
    _prepare(group)
    zombie, mark = trapped(group, "scheduler", f"{trap}:stop")
    until(lambda: _READS in zombie.log, "the scheduler reads")
    _deliver(group)
    until(lambda: mark.exists() and stopped(zombie), "the owner is suspended")
    group.start("scheduler", "two")
    until(lambda: group.outputs().keys() >= _CHOSEN, "the next owner does it")
    os.kill(zombie.pid, signal.SIGCONT)
    until(lambda: len(group.cluster.members(joined(group, "scheduler"))) == 2, "the first one has joined again")
    _end(group, f"waiting-owner-{trap}", started_s, record_property)


@pytest.mark.parametrize("second", ["deliver-now", "dead-letter"])
def test_two_requests_for_the_same_records(group: Group, second: str, record_property: Record) -> None:
    """The first one has them, and the second one says that they have left."""
    started_s = time.monotonic()
    _prepare(group)
    _deliver(group)
    _deliver(group, second)
    group.scheduler()
    _end(group, f"waiting-two-{second}", started_s, record_property)
