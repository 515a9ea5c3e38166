"""Workers and schedulers that join under load and leave again, in order or killed, cost no record and double none."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from tests.scenarios.dying import PROGRAM
from tests.scenarios.running import SIGKILLED, Group, exactly
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}}
_WAVE = 20


@contextmanager
def _load(group: Group) -> Iterator[list[int]]:
    """Records all the time: of ten, one is dead-lettered, two are retried, one takes a while."""
    sent: list[int] = []
    enough = Event()

    def produce() -> None:
        scripts = {0: ["raise"], 1: ["raise", "ok"], 2: ["raise", "ok"], 3: ["sleep 0.05"]}
        while not enough.wait(0.2):
            first = len(sent)
            group.send((scripts.get(n % 10, ["ok"]) for n in range(first, first + _WAVE)), first=first)
            sent.extend(range(first, first + _WAVE))

    thread = Thread(target=produce)
    thread.start()
    try:
        yield sent
    finally:
        enough.set()
        thread.join()


def _works(group: Group, pid: int, since: int) -> bool:
    return sum(call.pid == pid for call in group.deliveries.all()[since:]) > _WAVE


def _shared(group: Group, name: str) -> bool:
    members = group.cluster.members(name)
    return len(members) > 1 and all(members.values())


def _all_is_well(group: Group, sent: list[int]) -> None:
    group.settle()
    group.stop()
    dead = {n for n in sent if n % 10 == 0}
    assert group.outputs() == exactly(set(sent) - dead)
    assert group.dead() == exactly(dead)


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_others_join_and_leave_in_order(group: Group, strategy: str) -> None:
    """Both work while both are there; after the second ones have left, the first ones do all the work again."""
    group.prepare(
        partitions=4,
        policyEntry=_POLICY,
        handler={"slots": 4, "ordering": "key"},
        kafka={"partition.assignment.strategy": strategy},
    )
    group.scheduler()
    first = group.worker(None)
    with _load(group) as sent:
        until(lambda: _works(group, first.pid, 0), "the first works")
        second, scheduler = group.worker(None), group.scheduler(None)
        until(lambda: _works(group, second.pid, 0), "the second works")
        until(lambda: _shared(group, f"{group.name}.scheduler"), "two schedulers share the tiers")
        assert _shared(group, group.name)
        second.stop()
        scheduler.stop()
        gone = len(group.deliveries.all())
        until(lambda: len(group.cluster.members(group.name)) == 1, "one is left")
        until(lambda: _works(group, first.pid, gone), "the first works on")
    _all_is_well(group, sent)


@pytest.mark.crash
@pytest.mark.slow
def test_a_worker_joins_and_is_killed_inside_a_transaction(group: Group) -> None:
    """What the dead one had begun is undone by the broker, and the one that is left does it again."""
    group.prepare(
        partitions=4,
        policyEntry=_POLICY,
        handler={"slots": 2},
        kafka={"session.timeout.ms": 6000, "producer.transaction.timeout.ms": 2000},
    )
    group.scheduler()
    first = group.worker()
    with _load(group) as sent:
        until(lambda: _works(group, first.pid, 0), "the first works")
        second = group.worker("w2", program=(*PROGRAM, "produce", "15"))
        assert second.wait(30) == SIGKILLED
        gone = len(group.deliveries.all())
        assert _works(group, second.pid, 0)
    until(lambda: _works(group, first.pid, gone), "the first works on")
    _all_is_well(group, sent)
