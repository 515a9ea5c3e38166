"""Choice among several policy entries that match a destination: one wins, and nothing is inherited.

Classic sorts the matching entries in a tree, by a comparison that is neither antisymmetric nor transitive and in an
order that changes from run to run. Its choice is only certain where one entry comes before every other, whichever way
they are compared. Elsewhere, this module chooses by one documented order (:func:`specificity`) and marks the choice as
not stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kafka_redelivery.topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, Destination
from kafka_redelivery.topology.classic.destination_map import DestinationMap
from kafka_redelivery.topology.classic.filters import matches


@dataclass(frozen=True, slots=True)
class Choice:
    """The entries that match a destination, as indexes into the list of entries; the winner is the first.

    ``stable`` is whether the broker itself would always choose this winner.
    """

    ranked: tuple[int, ...]
    stable: bool = True

    @property
    def winner(self) -> int | None:
        """The index of the entry that decides; ``None`` if none matches."""
        return self.ranked[0] if self.ranked else None


NO_CHOICE = Choice(())
"""The choice if no entry matches."""


def choose(patterns: Sequence[Destination], destination: Destination) -> Choice:
    """Choose among entries that know their destination, as entries of a configuration file do.

    Source: ``DestinationMap.chooseValue``.
    """
    found = [
        index
        for index in _map_of(tuple(patterns)).candidates(destination)
        if patterns[index] == destination or matches(patterns[index], destination)
    ]
    return _ranked(patterns, found, destination)


def compare(one: Destination, other: Destination) -> int:
    """Return the sign of the broker's comparison: negative if ``one`` is more specific than ``other``.

    Source: ``ActiveMQDestination.compare``.
    """
    if one.kind is not other.kind:
        return -1 if one.kind.is_queue else 1
    if one.pattern and other.pattern and one.name == other.name:
        return 0
    if one.pattern and matches(one, other):
        return 1
    if other.pattern and matches(other, one):
        return -1
    mine, theirs = _as_java_sorts(one.name), _as_java_sorts(other.name)
    return (mine > theirs) - (mine < theirs)


def specificity(pattern: Destination) -> tuple[bool, int, int, int, str]:
    """Return the sort key that decides where the broker's choice is not certain; smaller is more specific.

    A plain name comes before a pattern; then more words that are not wildcards, fewer ``>``, more words, and
    alphabetical order.
    """
    words = pattern.paths
    plain = sum(word not in {ANY_CHILD, ANY_DESCENDANT} for word in words)
    return pattern.pattern, -plain, words.count(ANY_DESCENDANT), -len(words), pattern.name


@lru_cache(maxsize=16)
def _map_of(patterns: tuple[Destination, ...]) -> DestinationMap:
    """Cached, because a file may have thousands of entries and of sources, which all need the same map."""
    return DestinationMap(patterns)


def _ranked(patterns: Sequence[Destination], found: list[int], destination: Destination) -> Choice:
    """Select the best entry repeatedly; ``stable`` is about the first one only."""
    rest = sorted(found, key=lambda index: (specificity(patterns[index]), index))
    ranked: list[int] = []
    stable = True
    while rest:
        best = next((index for index in rest if _before_all(patterns, index, rest, destination)), None)
        if not ranked:
            stable = best is not None
        chosen = rest[0] if best is None else best
        rest.remove(chosen)
        ranked.append(chosen)
    return Choice(tuple(ranked), stable)


def _before_all(patterns: Sequence[Destination], index: int, others: Sequence[int], destination: Destination) -> bool:
    """Whether an entry comes first in the sorted tree, whatever order the others were added in."""

    def signed(one: Destination, other: Destination) -> int:
        if one == destination:
            return -1
        return 1 if other == destination else compare(one, other)

    mine = patterns[index]
    return all(signed(mine, patterns[other]) < 0 < signed(patterns[other], mine) for other in others if other != index)


def _as_java_sorts(name: str) -> bytes:
    """The sort key of Java, which compares UTF-16 code units and not characters."""
    return name.encode("utf-16-be", errors="surrogatepass")
