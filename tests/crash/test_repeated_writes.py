"""The outcomes of an aborted write are written again, but only while their partitions stay with the worker."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.crashing import stopped, trapped
from tests.crash.load import SHORT_SESSION, SHORT_SESSION_CONSUMER, scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_NUMBER = 120
_PROTOCOLS = {
    "range": {**SHORT_SESSION, "partition.assignment.strategy": "range"},
    "cooperative": {**SHORT_SESSION, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": SHORT_SESSION_CONSUMER,
}
_EACH = pytest.mark.parametrize(
    "protocol", ["range", *(pytest.param(each, marks=pytest.mark.full) for each in ("cooperative", "consumer"))]
)
_NEVER = "close:after:99:die"
"""A trap that never acts; with ``:3+`` commits are aborted from the third one on, until :func:`_go`."""


def _go(mark: Path) -> None:
    """Let the commits of a trapped process reach the broker."""
    mark.with_name(f"{mark.name}.go").touch()


def test_no_record_is_handled_again(group: Group) -> None:
    """However often its write is aborted, each record is handled once for each of its attempts."""
    group.prepare(**settings())
    group.scheduler()
    group.send(scripts(_NUMBER))
    worker, mark = trapped(group, "worker", f"{_NEVER}:3+")
    until(lambda: worker.log.count("was aborted") >= 3, "writes are aborted one after the other")
    _go(mark)
    group.settle()
    group.stop()
    assert_exactly_once(group, _NUMBER)
    attempts = Counter((n, attempt) for n, found in group.deliveries.attempts().items() for attempt in found)
    assert set(attempts.values()) == {1}


@_EACH
@pytest.mark.timeout(600)
def test_a_rebalance_before_the_repetition(group: Group, protocol: str) -> None:
    """The new owner of a partition handles the records; the worker writes nothing for it."""
    group.prepare(partitions=4, **settings(kafka=_PROTOCOLS[protocol]))
    group.scheduler()
    group.send(scripts(_NUMBER))
    one, mark = trapped(group, "worker", f"{_NEVER}:3+")
    until(lambda: one.log.count("was aborted") >= 2, "writes are aborted")
    two = group.worker("two")
    until(lambda: _shared(group), "both have partitions")
    group.send(scripts(_NUMBER, first=_NUMBER), first=_NUMBER)
    _go(mark)
    group.settle()
    assert (one.running, two.running) == (True, True)
    group.stop()
    assert_exactly_once(group, 2 * _NUMBER)


@pytest.mark.full
@_EACH
@pytest.mark.timeout(600)
def test_a_process_that_is_suspended_before_the_repetition(group: Group, protocol: str) -> None:
    """It has read that nothing was committed. Others do the work before it is resumed, so it must not repeat it."""
    group.prepare(**settings(kafka=_PROTOCOLS[protocol]))
    group.scheduler()
    group.send(scripts(_NUMBER))
    zombie, mark = trapped(group, "worker", "settle:after:1:stop:3")
    until(lambda: mark.exists() and stopped(zombie), "the process is suspended")
    assert "was aborted" in zombie.log
    other = group.worker("two")
    until(lambda: len(group.cluster.members(group.name)) == 1, "the other one has all partitions")
    group.settle()
    os.kill(zombie.pid, signal.SIGCONT)
    group.send(scripts(_NUMBER, first=_NUMBER), first=_NUMBER)
    until(lambda: _shared(group), "the resumed process has joined again")
    group.settle()
    assert (zombie.running, other.running) == (True, True)
    group.stop()
    assert_exactly_once(group, 2 * _NUMBER)


def _shared(group: Group) -> bool:
    members = group.cluster.members(group.name)
    return len(members) == 2 and all(members.values())
