"""Retries of a partition that wait equally long come back in order, also if many partitions share few of a tier."""

from collections import defaultdict

import pytest

from kafka_redelivery.consumers.routes import MAX_PARTITIONS
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_PARTITIONS = MAX_PARTITIONS + 4
_NUMBER = 600


@pytest.mark.parametrize("schedulers", [1, 2])
def test_of_many_partitions(group: Group, schedulers: int) -> None:
    """Each record fails once; small writes, so that the retries of a partition are in many of them."""
    group.prepare(partitions=_PARTITIONS, limits={"batch": 40}, handler={"ordering": "partition"})
    for _ in range(schedulers):
        group.scheduler(None)
    worker = group.worker()
    until(lambda: bool(group.cluster.members(group.name)), "the worker has partitions")
    group.send([["raise", "ok"]] * _NUMBER, keys=200)
    group.settle()
    assert worker.running
    group.stop()

    assert group.outputs() == exactly(range(_NUMBER))
    waited = group.cluster.read(group.tier("200ms"))
    assert len(waited) == _NUMBER
    assert len({seen.partition for seen in waited}) <= MAX_PARTITIONS
    again: dict[int, list[int]] = defaultdict(list)
    for call in group.deliveries.began():
        if call.attempt == 2:
            again[int(call.message_id.rpartition("@")[0].rpartition("-")[2])].append(
                int(call.message_id.rpartition("@")[2])
            )
    assert len(again) == _PARTITIONS
    assert all(offsets == sorted(offsets) for offsets in again.values())


@pytest.mark.long
def test_when_partitions_move(group: Group) -> None:
    """A second worker comes and goes, so that for a while each has few partitions: every record succeeds once."""
    group.prepare(partitions=_PARTITIONS, limits={"batch": 40})
    group.scheduler()
    group.worker("w1")
    group.send([["raise", "ok"]] * _NUMBER, keys=200)
    until(lambda: group.outputs().total() > 0, "the first retries succeed")
    second = group.worker(None)
    until(lambda: len(group.cluster.members(group.name)) == 2, "the second worker has joined")
    group.send([["raise", "ok"]] * _NUMBER, first=_NUMBER, keys=200)
    until(lambda: group.outputs().total() > _NUMBER, "retries of both succeed")
    second.stop()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(2 * _NUMBER))
