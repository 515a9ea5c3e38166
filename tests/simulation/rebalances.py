"""How many partitions change their worker when one joins or leaves, by the models of the assignors."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_redelivery.transport.protocols import Partition
from tests.simulation.assignors import Assignment, Assignor, cooperative_sticky, range_assignor
from tests.simulation.experiments import SHAPES
from tests.simulation.scenario import Scenario

_ASSIGNORS: Mapping[str, Assignor] = {"cooperative-sticky": cooperative_sticky, "range": range_assignor}


class Rebalance(NamedTuple):
    """What the workers of a group own, and what moves."""

    shape: str
    strategy: str
    partitions: int
    fewest: int
    most: int
    """Partitions of a worker."""

    fewest_ready: int
    most_ready: int
    """Partitions of ready topics of a worker."""

    joined: int
    """Partitions that have another owner when one more worker has joined."""

    left: int
    """The same when one of the workers has left; its own are among them."""


def rebalances() -> Iterator[Rebalance]:
    """Yield a line for each shape of a group, and each strategy."""
    for shape, scenario in SHAPES.items():
        for strategy, assign in _ASSIGNORS.items():
            yield _rebalance(shape, strategy, scenario, assign)


def _rebalance(shape: str, strategy: str, scenario: Scenario, assign: Assignor) -> Rebalance:
    ready = scenario.ready_partitions or scenario.partitions
    topics: dict[str, int] = {}
    for number in range(scenario.sources):
        topics |= {f"s{number:03}": scenario.partitions, f"billing.ready.s{number:03}": ready}
    members = [f"w{number:03}" for number in range(scenario.workers + 1)]
    before = assign(members[:-1], topics, {})
    owned = sorted(map(len, before.values()))
    owned_ready = sorted(sum(each.topic.startswith("billing.") for each in some) for some in before.values())
    joined = _moved(before, assign(members, topics, before))
    left = _moved(before, assign(members[1:-1], topics, {name: before[name] for name in members[1:-1]}))
    total = sum(topics.values())
    return Rebalance(shape, strategy, total, owned[0], owned[-1], owned_ready[0], owned_ready[-1], joined, left)


def _moved(before: Assignment, after: Assignment) -> int:
    owners = _owners(before)
    return sum(owners[partition] != member for partition, member in _owners(after).items())


def _owners(assignment: Assignment) -> dict[Partition, str]:
    return {partition: member for member, partitions in assignment.items() for partition in partitions}
