"""Blocking redelivery keeps the order, whoever owns the partition while a record waits in its place."""

from itertools import pairwise

from tests.scenarios.deliveries import Delivery
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

_DELAY_S = 8.0
"""Enough for another worker to start and get the partition meanwhile."""
_WAITS, _POISON = 3, 6
_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 8000, "redeliveryDelay": 8000}}


def _calls(group: Group, n: int, at_least: int) -> list[Delivery]:
    """The calls with a record, as soon as so many have begun and the last of them is noted in Kafka."""
    offset = (group.source, 0)

    def noted() -> list[Delivery]:
        calls = [call for call in group.deliveries.began() if call.n == n]
        committed = group.cluster.committed(group.name, group.source).get(offset)
        noted = committed is not None and committed[0] == n and committed[1] != ""
        return calls if len(calls) >= at_least and noted else []

    return until(noted, f"{n} was delivered {at_least} times, and waits")


def test_order_is_kept_across_a_rebalance_and_a_kill_in_the_middle_of_a_wait(group: Group) -> None:
    """Every record of the partition follows the one before it, none is early, and no delivery is counted anew."""
    group.prepare(
        partitions=2,
        handler={"nonBlockingRedelivery": False},
        kafka={"partition.assignment.strategy": "range"},
        policyEntry=_POLICY,
    )
    workers = {"b": group.worker("b")}
    until(lambda: group.cluster.members(group.name), "it is there")
    scripts = {_WAITS: ["raise", "raise", "ok"], _POISON: ["raise"]}
    group.cluster.produce(
        group.source,
        [script(n, scripts.get(n, ["ok"]), partition=0) for n in range(10)]
        + [script(n, ["ok"], partition=1) for n in range(100, 110)],
    )
    _calls(group, _WAITS, 1)
    # The assignment is made anew while it waits; by name the newcomer gets the first partition.
    workers["a"] = group.worker("a")
    until(lambda: len(group.cluster.members(group.name)) == 2, "the second one is there")
    calls = _calls(group, _WAITS, 2)
    [owner] = [name for name, process in workers.items() if process.pid == calls[1].pid]
    workers[owner].kill()
    assert len(_calls(group, _WAITS, 2)) == 2, "the kill came too late to prove anything"
    group.worker(owner)
    group.settle()
    group.stop()

    assert owner == "a", "the partition did not move"
    first = [call for call in group.deliveries.began() if call.n < 100]
    assert [call.n for call in first] == [0, 1, 2, *[_WAITS] * 3, 4, 5, *[_POISON] * 3, 7, 8, 9]
    for n in (_WAITS, _POISON):
        assert group.deliveries.attempts()[n] == [1, 2, 3]
        starts = [call.at_s for call in first if call.n == n]
        assert all(later - earlier >= _DELAY_S for earlier, later in pairwise(starts))
    others = [call.at_s for call in group.deliveries.began() if call.n >= 100]
    assert max(others) < first[4].at_s, "the other partition waited, too"
    assert group.outputs() == exactly({*range(10), *range(100, 110)} - {_POISON})
    assert group.dead() == exactly({_POISON})
    assert {metadata for _, metadata in group.cluster.committed(group.name, group.source).values()} == {""}
