"""Blocking redelivery keeps the order of a partition while its owner changes during a record's delay."""

from itertools import pairwise

import pytest

from kafka_redelivery.topology.wire.progress import Progress
from tests.scenarios.deliveries import Delivery
from tests.scenarios.running import Group, Process, exactly, script
from tests.scenarios.waiting import until

_DELAY_S = 6.0
"""Seconds; long enough to see a record wait and to kill its worker."""
_WAITS, _POISON = 3, 6
_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 20, "initialRedeliveryDelay": 6000, "redeliveryDelay": 6000}}


def _calls(group: Group) -> list[Delivery]:
    return [call for call in group.deliveries.began() if call.n == _WAITS]


def _waits(group: Group, process: Process) -> list[Delivery]:
    """Return the calls with the waiting record, once its last call was this process's and its failure is committed."""

    def noted() -> list[Delivery]:
        committed = group.cluster.committed(group.name, group.source).get((group.source, 0))
        waiting = {} if committed is None else Progress.restore(*committed).waiting
        calls = _calls(group)
        last = calls[-1] if calls else None
        known = last is not None and _WAITS in waiting and waiting[_WAITS].deliveries == last.attempt
        return calls if known and last is not None and last.pid == process.pid else []

    return until(noted, f"{_WAITS} waits in {process.name}")


@pytest.mark.slow
def test_order_is_kept_across_a_rebalance_and_a_kill_in_the_middle_of_a_wait(group: Group) -> None:
    """Each record follows the one before it, none is delivered early, and no attempt is counted twice."""
    group.prepare(
        partitions=2,
        handler={"nonBlockingRedelivery": False},
        kafka={"partition.assignment.strategy": "range"},
        policyEntry=_POLICY,
    )
    one = group.worker("b")
    until(lambda: group.cluster.members(group.name), "the worker has joined")
    over = group.folder / "over"
    scripts = {_WAITS: [f"until {over}"], _POISON: ["raise", "reject"]}
    group.cluster.produce(
        group.source,
        [script(n, scripts.get(n, ["ok"]), partition=0) for n in range(10)]
        + [script(n, ["ok"], partition=1) for n in range(100, 110)],
    )
    _waits(group, one)
    # The new member causes a rebalance during the wait; by its name it gets the first partition.
    another = group.worker("a")
    before = _waits(group, another)
    another.kill()
    assert len(_calls(group)) == len(before), "the kill came too late to prove anything"
    over.touch()
    group.worker("a")
    group.settle()
    group.stop()

    deliveries = len(before) + 1
    first = [call for call in group.deliveries.began() if call.n < 100]
    assert [call.n for call in first] == [0, 1, 2, *[_WAITS] * deliveries, 4, 5, *[_POISON] * 2, 7, 8, 9]
    for n, made in ((_WAITS, deliveries), (_POISON, 2)):
        assert group.deliveries.attempts()[n] == list(range(1, made + 1))
        starts = [call.at_s for call in first if call.n == n]
        assert all(later - earlier >= _DELAY_S for earlier, later in pairwise(starts))
    others = [call.at_s for call in group.deliveries.began() if call.n >= 100]
    assert max(others) < next(call.at_s for call in first if call.n == _WAITS + 1), (
        "the records of the other partition waited, too"
    )
    assert group.outputs() == exactly({*range(10), *range(100, 110)} - {_POISON})
    assert group.dead() == exactly({_POISON})
    assert {metadata for _, metadata in group.cluster.committed(group.name, group.source).values()} == {""}
