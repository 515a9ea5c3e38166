"""Which member owns which partition: models of the client's assignors, for members that subscribe to the same topics.

Source: ``rdkafka_range_assignor.c``, ``rdkafka_sticky_assignor.c`` and the adjustment for cooperative rebalances in
``rdkafka_cgrp.c`` of librdkafka 2.16. ``assignments.json`` has what real clients did; ``test_assignors.py`` compares.
"""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product

from kafka_redelivery.transport.protocols import Partition

Assignment = dict[str, list[Partition]]
"""The partitions of each member, sorted."""

Assignor = Callable[[Sequence[str], Mapping[str, int], Mapping[str, Collection[Partition]]], Assignment]
"""Takes the members, the topics with their numbers of partitions, and what each member has owned before."""


def range_assignor(
    members: Sequence[str], topics: Mapping[str, int], owned: Mapping[str, Collection[Partition]]
) -> Assignment:
    """Give each member consecutive partitions of each topic; what it owned before does not matter."""
    del owned
    found: Assignment = {member: [] for member in sorted(members)}
    for topic, count in sorted(topics.items()):
        each, more = divmod(count, len(found))
        first = 0
        for index, partitions in enumerate(found.values()):
            end = first + each + (index < more)
            partitions += [Partition(topic, number) for number in range(first, end)]
            first = end
    return found


def cooperative_sticky(
    members: Sequence[str], topics: Mapping[str, int], owned: Mapping[str, Collection[Partition]]
) -> Assignment:
    """Move as few partitions as possible, in as many rebalances as that takes.

    A partition that moves is given up in one rebalance and assigned in the next. The order of ``topics`` is that of the
    broker's answer to the member that assigns: partitions without an owner are assigned in this order, backwards.
    """
    while True:
        target = _sticky(members, topics, owned)
        owner = {partition: member for member in members for partition in owned.get(member, ())}
        moving = {
            partition
            for member, partitions in target.items()
            for partition in partitions
            if owner.get(partition, member) != member
        }
        target = {member: [each for each in partitions if each not in moving] for member, partitions in target.items()}
        if not moving:
            return target
        owned = target


def _sticky(
    members: Sequence[str], topics: Mapping[str, int], owned: Mapping[str, Collection[Partition]]
) -> Assignment:
    every = [Partition(topic, number) for topic, count in topics.items() for number in range(count)]
    existing = frozenset(every)
    balance = _Balance({member: sorted(set(owned.get(member, ())) & existing) for member in sorted(members)})
    taken = _most_loaded_first(balance.assignment)
    known = frozenset(taken)
    rest = [partition for partition in every if partition not in known]
    if taken:
        rest.reverse()  # the client's hash map returns the newest entry first
    else:
        rest.sort()
    for partition in rest:
        balance.assign(partition)
    for candidates in (rest, [*taken, *rest]):
        if candidates:
            balance.improve(candidates)
    return {member: sorted(partitions) for member, partitions in balance.assignment.items()}


def _most_loaded_first(assignment: Mapping[str, Collection[Partition]]) -> list[Partition]:
    """Return the owned partitions in the order in which they are considered for another member."""
    loads = sorted((len(partitions), member) for member, partitions in assignment.items() if partitions)
    left = {member: iter(assignment[member]) for _, member in loads}
    found = []
    while loads:
        count, member = loads.pop()
        found.append(next(left[member]))
        if count > 1:
            insort(loads, (count - 1, member))
    return found


class _Balance:
    """Members in the order of their numbers of partitions, and the partitions that have been moved."""

    def __init__(self, assignment: Mapping[str, Iterable[Partition]]) -> None:
        self.assignment: dict[str, dict[Partition, None]] = {
            member: dict.fromkeys(partitions) for member, partitions in assignment.items()
        }
        self._owner = {partition: member for member, each in self.assignment.items() for partition in each}
        self._loads = sorted((len(partitions), member) for member, partitions in self.assignment.items())
        self._moves: dict[Partition, tuple[str, str]] = {}
        """From which member to which other one a partition has been moved."""

        self._moved: dict[tuple[str, str, str], dict[Partition, None]] = {}
        """The same by topic and both members, in the order of the moves."""

    def assign(self, partition: Partition) -> None:
        """Give a partition without an owner to the member with the fewest."""
        self._add(partition, self._loads[0][1])

    def improve(self, candidates: Sequence[Partition]) -> None:
        """Move candidates to the member with the fewest partitions, until all have the same number, or one more."""
        moved = True
        while moved:
            moved = False
            for partition in candidates:
                (fewest, to), (most, _) = self._loads[0], self._loads[-1]
                if fewest >= most - 1:
                    break
                owner = self._owner[partition]
                if len(self.assignment[owner]) > fewest + 1:
                    self._move(self._instead_of(partition, owner, to), to)
                    moved = True

    def _instead_of(self, partition: Partition, owner: str, to: str) -> Partition:
        """Return a partition of the same topic that has been moved the other way, if there is one: it moves back."""
        if partition in self._moves:
            owner = self._moves[partition][0]
        back = self._moved.get((partition.topic, to, owner))
        return next(iter(back)) if back else partition

    def _move(self, partition: Partition, to: str) -> None:
        owner = self._owner[partition]
        first, _ = self._moves.pop(partition, (owner, owner))
        self._moved.get((partition.topic, first, owner), {}).pop(partition, None)
        if first != to:
            self._moves[partition] = first, to
            self._moved.setdefault((partition.topic, first, to), {})[partition] = None
        self._count(owner, -1)
        del self.assignment[owner][partition]
        self._add(partition, to)

    def _add(self, partition: Partition, member: str) -> None:
        self._count(member, 1)
        self.assignment[member][partition] = None
        self._owner[partition] = member

    def _count(self, member: str, change: int) -> None:
        count = len(self.assignment[member])
        self._loads.remove((count, member))
        insort(self._loads, (count + change, member))


def in_short(partitions: Iterable[Partition]) -> dict[str, str]:
    """Return partitions as text by topic, such as ``0-3 7``, for a file that people read."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return {topic: _runs(each) for topic, each in numbers.items()}


def from_short(text: Mapping[str, str]) -> list[Partition]:
    """Return the partitions that :func:`in_short` describes."""
    found = []
    for topic, runs in text.items():
        for run in runs.split():
            first, _, last = run.partition("-")
            found += [Partition(*each) for each in product((topic,), range(int(first), int(last or first) + 1))]
    return sorted(found)


def _runs(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
