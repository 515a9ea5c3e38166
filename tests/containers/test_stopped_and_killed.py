"""A worker container that is stopped or killed under load neither loses nor duplicates a record."""

import signal

import pytest

from tests.containers.processes import GRACE_S, ContainerGroup, Node
from tests.scenarios.running import exactly
from tests.scenarios.waiting import until

_NUMBER = 1500
_SCRIPTS = {0: ["raise", "ok"], 1: ["reject"], 2: ["raise"]}
_DEAD = {n for n in range(_NUMBER) if n % 10 in {1, 2}}


def _prepare(containers: ContainerGroup) -> None:
    containers.prepare(slots=2, redeliveries=1, delay_ms=300)
    containers.group.send(_SCRIPTS.get(n % 10, ["sleep 0.005"]) for n in range(_NUMBER))


def _everything_once(containers: ContainerGroup) -> None:
    group = containers.group
    group.settle()
    containers.stop()
    assert group.outputs() == exactly(set(range(_NUMBER)) - _DEAD)
    assert group.dead() == exactly(_DEAD)
    assert group.pending() == []


@pytest.mark.parametrize("instance", ["w1", None], ids=["stable name", "no name"])
def test_a_stopped_worker_hands_over(containers: ContainerGroup, instance: str | None) -> None:
    """SIGTERM under load: it exits with 0 within the grace period, and none of its records is handled twice.

    With an instance name its successor of that name continues, without one the other worker; neither waits for the
    session time-out.
    """
    _prepare(containers)
    containers.scheduler()
    stopped = containers.worker(instance)
    containers.worker("w2")
    group = containers.group
    with group.cluster.follow(group.output) as tail:
        tail.reach(_NUMBER // 5)
        code, took_s = stopped.stop()
        assert code == 0, stopped.log_tail
        assert took_s < GRACE_S
        assert len(tail.records) < _NUMBER - len(_DEAD), "it was stopped too late to prove anything"
        if instance is not None:
            stopped.start_again()
        tail.reach(_NUMBER - len(_DEAD))
    _everything_once(containers)


def test_a_killed_worker_continues_under_its_name(containers: ContainerGroup) -> None:
    """It is killed under load twice and restarted under its name: it recovers its own transaction and continues."""
    _prepare(containers)
    containers.scheduler()
    killed = containers.worker("w1")
    containers.worker("w2")
    group = containers.group
    with group.cluster.follow(group.output) as tail:
        for part in (0.15, 0.4):
            tail.reach(int(part * _NUMBER))
            killed.kill()
            assert len(tail.records) < _NUMBER - len(_DEAD), "it was killed too late to prove anything"
            killed.start_again()
        tail.reach(_NUMBER - len(_DEAD))
    _everything_once(containers)


def test_a_worker_that_is_still_starting_stops_immediately(containers: ContainerGroup) -> None:
    """A container's first process ignores a signal without a handler, so the handler exists during the start, too."""
    containers.prepare()
    worker = containers.start("worker", "w1", servers="kafka:1")
    until(lambda: _handles_sigterm(worker), "the worker connects to Kafka")
    code, took_s = worker.stop()
    assert took_s < GRACE_S / 4
    assert code == 143, worker.log_tail


def _handles_sigterm(node: Node) -> bool:
    """Return whether its first process handles SIGTERM, by the signal mask in ``/proc``."""
    _, log_tail = node.run("grep", "SigCgt", "/proc/1/status")
    return bool(log_tail) and bool(int(log_tail.split()[1], 16) & 1 << (signal.SIGTERM - 1))
