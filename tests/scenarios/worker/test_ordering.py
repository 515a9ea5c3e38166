"""Concurrent handling keeps the configured order: of each partition, of each key, or none."""

from collections import Counter, defaultdict

import pytest

from tests.scenarios.deliveries import Delivery
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

_NUMBER = 240


def _scripts() -> list[list[str]]:
    return [[f"sleep {(n * 7 % 5) / 100}"] for n in range(_NUMBER)]


def _most_at_once(calls: list[Delivery]) -> int:
    running = most = 0
    for call in calls:
        running += 1 if call.what == "began" else -1
        most = max(most, running)
    return most


def _each_in_order(calls: list[Delivery], by: str) -> None:
    """Assert that the calls of each partition or key follow each other without overlap, in offset order."""
    lanes: dict[object, list[Delivery]] = defaultdict(list)
    for call in calls:
        lanes[getattr(call, by)].append(call)
    for lane in lanes.values():
        numbers = [call.n for call in lane]
        assert numbers == sorted(numbers)
        assert [call.what for call in lane] == ["began", "ended"] * (len(lane) // 2)


@pytest.mark.parametrize(
    ("ordering", "partitions", "slots", "least"), [("partition", 4, 4, 2), ("key", 1, 8, 3)], ids=["partition", "key"]
)
def test_each_keeps_its_order(group: Group, ordering: str, partitions: int, slots: int, least: int) -> None:
    """Slots handle several partitions, or several keys of one partition, concurrently, each in its own order."""
    group.prepare(partitions=partitions, handler={"slots": slots, "ordering": ordering})
    group.send(_scripts())
    group.worker()
    group.settle()
    group.stop()

    assert group.outputs() == exactly(range(_NUMBER))
    calls = group.deliveries.all()
    _each_in_order(calls, ordering)
    assert least <= _most_at_once(calls) <= slots


def test_unordered_survives_a_kill(group: Group) -> None:
    """After a kill the records that overtook a slow one are not handled again, because the metadata names them."""
    group.prepare(partitions=1, handler={"slots": 8, "ordering": "unordered"})
    worker = group.worker()
    # Each without records in line behind it that would have to wait.
    for n in (0, 1):
        group.cluster.produce(group.source, [script(n, ["stall 600"])])
        until(lambda n=n: n in group.deliveries.counts(), "a slow call begins")  # type: ignore[misc]
    group.send([["sleep 0.01"]] * 198, first=2)
    with group.cluster.follow(group.output) as tail:
        tail.reach(198)
    assert _most_at_once(group.deliveries.all()) > 3
    # The metadata names the records done above the slow ones, and later commits keep them.
    until(lambda: len(group.cluster.unfinished(group.name, group.source)) == 2, "the metadata has all but two as done")
    (offset, metadata) = group.cluster.committed(group.name, group.source)[group.source, 0]
    assert offset == 0
    assert metadata
    worker.kill()
    began = group.deliveries.counts()

    group.worker()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(200))
    assert group.deliveries.counts() == began + Counter((0, 1))
    assert group.cluster.committed(group.name, group.source)[group.source, 0][1] == ""
