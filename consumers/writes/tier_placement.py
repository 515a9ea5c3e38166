"""Which partitions of the tiers a worker writes to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from zlib import crc32

MAX_PARTITIONS = 8
"""How many partitions of a tier a worker writes to, whatever the number of its source partitions."""


class TierPlacement:
    """Chooses the partition of a tier for the retries of a source partition.

    A producer sends a request for each partition, and each partition of a transaction costs a marker. So the retries
    of many source partitions share the numbers of a few of them. Only numbers of source partitions that the worker
    owns are chosen: other workers, whose clocks may differ, seldom write to the same partitions of a tier, nor do they
    wait there for the open transaction of a killed worker.

    While the worker keeps its partitions, a source partition keeps its place, so retries of it that wait for the same
    time stay in order. When partitions come or go, few places change.
    """

    def __init__(self, owned: Callable[[], Iterable[int]] = tuple) -> None:
        """Prepare.

        Args:
            owned: returns the numbers of the source partitions that the worker owns. Without any, or with few, each
                source partition has the place of its own number.
        """
        self._owned = owned
        self._numbers: frozenset[int] = frozenset()
        self._places: tuple[int, ...] = ()

    def refresh(self) -> None:
        """Learn which partitions the worker owns now."""
        numbers = frozenset(self._owned())
        if numbers != self._numbers:
            self._numbers, self._places = numbers, _places(numbers)

    def number_for(self, origin: int) -> int:
        """Return the partition in which retries of the source partition ``origin`` wait."""
        return self._places[origin % len(self._places)] if self._places else origin


def _places(numbers: Collection[int]) -> tuple[int, ...]:
    """Choose a number for each place, independently of the others; empty if there is one for each number.

    By rendezvous hashing: a place changes only if its number goes, or if a number comes that is chosen instead.
    """
    if len(numbers) <= MAX_PARTITIONS:
        return ()
    return tuple(
        min(numbers, key=lambda number, place=place: crc32(b"%d/%d" % (place, number)))  # type: ignore[misc]
        for place in range(MAX_PARTITIONS)
    )
