"""With each rebalance protocol, workers and schedulers that join, leave and die neither lose nor duplicate records."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from tests.crash.crashing import joined, trapped
from tests.crash.load import SHORT_SESSION, SHORT_SESSION_CONSUMER, scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.running import SIGKILLED, Group, Role, exactly
from tests.scenarios.waiting import LONG_S, until

pytestmark = [pytest.mark.kafka, pytest.mark.crash]

_WAVE = 20
_MANY = 600
_MORE = 150
_TRIES = 12
_ROLES: tuple[Role, ...] = ("worker", "scheduler")
_STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
_PROTOCOLS: dict[str, dict[str, Any]] = {
    **{strategy: {**SHORT_SESSION, "partition.assignment.strategy": strategy} for strategy in _STRATEGIES},
    "consumer": SHORT_SESSION_CONSUMER,
}
_ALWAYS = "cooperative-sticky"
"""The default of workers. What an eager rebalance revokes is also tested in ``test_repeated_writes.py``."""


@contextmanager
def _load(group: Group) -> Iterator[list[int]]:
    """Send records continuously; yield the growing list of their numbers."""
    sent: list[int] = []
    enough = Event()

    def produce() -> None:
        while not enough.wait(0.2):
            group.send(scripts(_WAVE, first=len(sent)), first=len(sent))
            sent.extend(range(len(sent), len(sent) + _WAVE))

    thread = Thread(target=produce)
    thread.start()
    try:
        yield sent
    finally:
        enough.set()
        thread.join()


def _shared_by(group: Group, number: int) -> bool:
    for role in _ROLES:
        members = group.cluster.members(joined(group, role))
        if len(members) != number or not all(members.values()):
            return False
    return True


def _workers(group: Group) -> int:
    members = group.cluster.members(group.name)
    return len(members) if all(members.values()) else 0


def _on(group: Group, sent: list[int]) -> None:
    """Wait until records sent from now on are handled, too."""
    last = len(sent) + 2 * _WAVE
    until(lambda: max(group.outputs(), default=0) >= last, "records sent later are handled")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "protocol", [pytest.param(p, marks=[] if p == _ALWAYS else pytest.mark.full) for p in _PROTOCOLS]
)
def test_others_come_and_go(group: Group, protocol: str) -> None:
    """Others join, leave in order, join again, are killed inside a write and removed after their session time-out."""
    group.prepare(partitions=4, **settings(kafka=_PROTOCOLS[protocol]))
    for role in _ROLES:
        group.start(role, "one")
    with _load(group) as sent:
        until(lambda: _shared_by(group, 1), "the first ones have joined")
        others = [group.start(role, None) for role in _ROLES]
        until(lambda: _shared_by(group, 2), "others have joined")
        _on(group, sent)
        for process in others:
            process.stop()
        until(lambda: _shared_by(group, 1), "the others have left")
        _on(group, sent)
        dying = [trapped(group, role, "offsets:after:5:die", "two")[0] for role in _ROLES]
        for process in dying:
            assert process.wait(LONG_S) == SIGKILLED
        until(lambda: _shared_by(group, 1), "the killed ones are removed")
        _on(group, sent)
    group.settle()
    group.stop()
    assert_exactly_once(group, len(sent))


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_an_aborted_write_inside_a_rebalance(group: Group, protocol: str) -> None:
    """A worker that aborts a write while partitions are revoked rewinds its remaining ones to the committed offsets."""
    # With one partition of the ready topic, some that are revoked belong to the source. Otherwise Kafka may revoke
    # all of the ready topic, which have nothing to write.
    group.prepare(partitions=4, **settings(kafka=_PROTOCOLS[protocol], topics={"maxPartitions": 1}))
    group.scheduler()
    one, mark = trapped(group, "worker", "revoked:before:1:unheard")
    sent = 0
    for number in [_MANY] + [_MORE] * (_TRIES - 1):
        group.send([["sleep 0.1"]] * number, first=sent)
        handled, sent = len(group.deliveries.all()), sent + number
        until(lambda: len(group.deliveries.all()) > handled + 10, "the worker handles records")  # noqa: B023 - at once
        # A rebalance has nothing to write if the write before it was refused for being late.
        two = group.worker(None)
        until(lambda: _workers(group) == 2, "another has joined")
        if mark.exists():
            break
        two.stop()
        until(lambda: _workers(group) == 1, "the other has left")
    assert mark.exists(), "no rebalance had anything to write"
    group.settle(within_s=180)
    assert "outcome of a transaction unknown" in one.log
    assert one.running
    group.stop()
    assert group.outputs() == exactly(range(sent))
