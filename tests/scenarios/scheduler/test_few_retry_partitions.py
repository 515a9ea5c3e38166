"""``topics.maxPartitions``: tiers and ready topics with fewer partitions than their source."""

from collections import defaultdict

import pytest

from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_PARTITIONS, _FEW, _NUMBER = 24, 4, 480


def test_every_record_ends_once_and_retries_stay_in_order(group: Group) -> None:
    """Two workers share the partitions; each tenth record dies, each other one succeeds at its second delivery."""
    policy = {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}
    group.prepare(
        partitions=_PARTITIONS,
        topics={"maxPartitions": _FEW},
        limits={"batch": 40},
        policyEntry={"redeliveryPolicy": policy},
    )
    topics = (group.ready, group.tier("200ms"), group.dead_letters)
    assert [group.cluster.partitions(topic) for topic in topics] == [_FEW, _FEW, _PARTITIONS]
    group.scheduler()
    for name in ("w1", "w2"):
        group.worker(name)

    def shared() -> bool:
        """Each partition has an owner and both workers have some: retries change their places in a rebalance."""
        owned = [len(each) for each in group.cluster.members(group.name).values()]
        return len(owned) == 2 and all(owned) and sum(owned) == _PARTITIONS + _FEW

    until(shared, "both workers have partitions")
    group.send([["raise"] * 3 if number % 10 == 0 else ["raise", "ok"] for number in range(_NUMBER)], keys=200)
    group.settle()
    group.stop()

    dead = range(0, _NUMBER, 10)
    assert group.outputs() == exactly(set(range(_NUMBER)) - set(dead))
    assert len(group.cluster.read(group.dead_letters)) == len(dead)
    again: dict[str, list[int]] = defaultdict(list)
    for call in group.deliveries.began():
        if call.attempt == 2:
            partition, _, offset = call.message_id.rpartition("@")
            again[partition].append(int(offset))
    assert len(again) == _PARTITIONS
    assert {partition: offsets for partition, offsets in again.items() if offsets != sorted(offsets)} == {}


def test_a_source_that_grows(group: Group) -> None:
    """Its ready topic grows up to the limit; the records of the new partitions are redelivered, too."""
    group.prepare(partitions=2, topics={"maxPartitions": _FEW})
    group.scheduler()
    group.worker()
    group.send([["raise", "ok"]] * 20)
    until(lambda: group.outputs().total() == 20, "the retries succeed")
    group.cluster.grow(group.source, 6)
    group.apply()
    assert group.cluster.partitions(group.ready) == _FEW
    group.send([["raise", "ok"]] * 60, first=20, keys=60)
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(80))
