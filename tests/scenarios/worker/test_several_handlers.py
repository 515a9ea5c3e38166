"""One worker calls a handler for each source: in threads, in an event loop and in child processes."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pytest

from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import LONG_S, until

_HANDLERS = {
    "threads": {"slots": 2},
    "loop": {"callable": "tests.scenarios.handlers:scripted_async", "slots": 4, "ordering": "key"},
    "processes": {"isolation": "process", "slots": 2, "deadline": "20s"},
}


class _Sources:
    """Three sources of a group, each with its own handler."""

    def __init__(self, group: Group, **sections: object) -> None:
        self.group = group
        self.topics = {kind: f"{group.name}.{kind}" for kind in _HANDLERS}
        sources = [
            {"topic": topic, "value": {"format": "json"}, "handler": _HANDLERS[kind]}
            for kind, topic in self.topics.items()
        ]
        group.configure(sources=sources, **sections)
        group.cluster.create(*self.topics.values(), group.output, partitions=2)
        group.apply()

    def send(self, kind: str, scripts: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Write numbered records to one of them."""
        self.group.cluster.produce(self.topics[kind], [script(n, do) for n, do in scripts])

    def finished(self, kind: str) -> bool:
        """Whether nothing of a source is left, and nothing waits for its redelivery."""
        topic = self.topics[kind]
        return not self.group.cluster.unfinished(self.group.name, topic, f"{self.group.name}.ready.{topic}")

    def settled(self) -> bool:
        """Whether nothing is left in any topic of the group."""
        name, cluster = self.group.name, self.group.cluster
        tiers = [topic for topic in cluster.topics() if topic.startswith(f"{name}.retry.")]
        waits: Callable[[], bool] = partial(cluster.unfinished, f"{name}.scheduler", *tiers)  # type: ignore[assignment]
        return not waits() and all(map(self.finished, self.topics)) and not waits()

    def dead(self) -> Counter[int]:
        """The numbers of the dead letters."""
        return Counter(number(each) for each in self.group.cluster.read(*(f"DLQ.{t}" for t in self.topics.values())))


@pytest.mark.crash
def test_a_killed_worker_loses_and_doubles_nothing(group: Group) -> None:
    """Three kills under load. Each record of each source is in the outputs or dead letters exactly once."""
    sources = _Sources(
        group,
        limits={"batch": 50, "bufferRecords": 600},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 100, "redeliveryDelay": 200}
        },
    )
    each = 400
    scripts = {1: ["raise", "raise", "ok"], 2: ["reject"], 3: ["raise"]}
    group.scheduler()
    worker = group.worker()
    for first, kind in enumerate(_HANDLERS):
        sources.send(kind, [(n, scripts.get(n % 10, ["ok"])) for n in range(first * each, (first + 1) * each)])
    numbers = range(each * len(_HANDLERS))
    dead = {n for n in numbers if n % 10 in {2, 3}}
    with group.cluster.follow(group.output) as tail:
        for part in (0.1, 0.3, 0.5):
            tail.reach(int(part * (len(numbers) - len(dead))))
            worker.kill()
            assert len(tail.records) < len(numbers) - len(dead), "the kill came too late to prove anything"
            worker = group.worker()
    until(sources.settled, "nothing is pending", within_s=LONG_S)
    group.cluster.wait_for_markers(group.output)
    group.stop()

    assert group.outputs() == exactly(set(numbers) - dead)
    assert sources.dead() == exactly(dead)


@pytest.mark.parametrize("stuck", ["threads", "processes"])
def test_a_handler_that_does_not_return_stops_no_other_source(group: Group, stuck: str) -> None:
    """Its part of the buffer is full long before its backlog is fetched. The other sources come to their end."""
    sources = _Sources(group, limits={"bufferRecords": 300})
    each = 400
    waiting = group.folder / "go on"
    sources.send(stuck, [(n, [f"wait {waiting}"]) for n in range(each)])
    group.worker()
    until(group.deliveries.began, "a call begins that does not return")
    others = [kind for kind in _HANDLERS if kind != stuck]
    for index, kind in enumerate(others, start=1):
        sources.send(kind, [(n, ["ok"]) for n in range(index * each, (index + 1) * each)])
    for kind in others:
        until(lambda kind=kind: sources.finished(kind), f"all records of {kind} are handled")  # type: ignore[misc]
    assert group.outputs() == exactly(range(each, 3 * each))

    waiting.touch()
    until(lambda: sources.finished(stuck), "the backlog is handled")
    group.cluster.wait_for_markers(group.output)
    assert group.outputs() == exactly(range(3 * each))
    group.stop()
