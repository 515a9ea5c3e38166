"""A worker container that is stopped or killed under load loses nothing and doubles nothing, and others go on."""

import signal

import pytest

from tests.containers.processes import GRACE_S, ContainerGroup, Node
from tests.scenarios.running import exactly
from tests.scenarios.waiting import until

_NUMBER = 1500
_SCRIPTS = {0: ["raise", "ok"], 1: ["reject"], 2: ["raise"]}
_DEAD = {n for n in range(_NUMBER) if n % 10 in {1, 2}}
_SESSION_S = 45
"""After so long the group gives up a member that has not said goodbye: the client's own default."""


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
    """SIGTERM under load: it ends by itself, with 0, within the grace period, and nothing of its work is done twice.

    With a stable name its successor of that name goes on; without one, the other worker, and neither waits until the
    group would have given it up.
    """
    _prepare(containers)
    containers.scheduler()
    stopped = containers.worker(instance)
    containers.worker("w2")
    group = containers.group
    with group.cluster.follow(group.output) as tail:
        tail.reach(_NUMBER // 5)
        code, took_s = stopped.stop()
        assert code == 0, stopped.said
        assert took_s < GRACE_S
        assert len(tail.records) < _NUMBER - len(_DEAD), "it was stopped too late to prove anything"
        if instance is not None:
            stopped.start_again()
        tail.reach(_NUMBER - len(_DEAD), within_s=_SESSION_S - 10)
    _everything_once(containers)


def test_a_killed_worker_goes_on_under_its_name(containers: ContainerGroup) -> None:
    """SIGKILL under load, twice, and a restart under its name: it settles its own transaction and goes on."""
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
        tail.reach(_NUMBER - len(_DEAD), within_s=_SESSION_S - 10)
    _everything_once(containers)


def test_a_worker_that_is_still_starting_stops_at_once(containers: ContainerGroup) -> None:
    """A container's first process ignores a signal without a handler: this one has a handler while it starts, too."""
    containers.prepare()
    worker = containers.start("worker", "w1", servers="kafka:1")
    until(lambda: _heeds_sigterm(worker), "it looks for Kafka")
    code, took_s = worker.stop()
    assert took_s < GRACE_S / 4
    assert code == 143, worker.said


def _heeds_sigterm(node: Node) -> bool:
    """Whether its first process has a handler, by the mask that the kernel shows."""
    _, said = node.run("grep", "SigCgt", "/proc/1/status")
    return bool(said) and bool(int(said.split()[1], 16) & 1 << (signal.SIGTERM - 1))
