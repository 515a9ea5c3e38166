"""Which partitions of the tiers a worker writes to."""

from __future__ import annotations

from collections.abc import Callable, Collection

MAX_PARTITIONS = 8
"""How many partitions of a tier a worker writes to, whatever the number of its source partitions."""


class TierPlacement:
    """Chooses the partition of a tier for the retries of a source partition.

    A producer sends a request for each partition, and each partition of a transaction costs a marker. So the retries
    of many source partitions share the numbers of a few of them. Only numbers of source partitions that the worker
    owns are chosen: other workers, whose clocks may differ, seldom write to the same partitions of a tier.

    While the worker keeps its partitions, a source partition keeps its place, so retries of it that wait for the same
    time stay in order. Partitions that come change no place of a worker that has more than ``MAX_PARTITIONS``: they
    may come from a killed worker, whose open transaction blocks the readers of the partitions that it has written to.
    """

    def __init__(self, owned: Callable[[], frozenset[int]] = frozenset) -> None:
        """Prepare.

        Args:
            owned: returns the numbers of the source partitions that the worker owns; the same object as long as they
                are the same, because it is called for every retry. Without any, or with few, each source partition
                has the place of its own number.
        """
        self._owned = owned
        self._numbers: frozenset[int] = frozenset()
        self._places: tuple[int, ...] = ()
        """Empty: each source partition has the place of its own number."""

    def number_for(self, origin: int) -> int:
        """Return the partition in which retries of the source partition ``origin`` wait."""
        numbers = self._owned()
        if numbers is not self._numbers and numbers:  # none at all is a moment within a rebalance
            self._choose(numbers)
        return self._places[origin % len(self._places)] if self._places else origin

    def _choose(self, numbers: frozenset[int]) -> None:
        if len(numbers) <= MAX_PARTITIONS:
            self._places = ()
        elif self._places:
            kept = zip(range(MAX_PARTITIONS), self._places, strict=True)
            self._places = tuple(place if place in numbers else _number(slot, numbers) for slot, place in kept)
        else:
            candidates = numbers & self._numbers or numbers
            self._places = tuple(_number(slot, candidates) for slot in range(MAX_PARTITIONS))
        self._numbers = numbers


def _number(slot: int, numbers: Collection[int]) -> int:
    """Return the number for a slot: the slots divide the numbers evenly, so that schedulers share the work."""
    return sorted(numbers)[slot * len(numbers) // MAX_PARTITIONS]
