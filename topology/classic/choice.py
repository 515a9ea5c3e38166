"""Which of several matching entries decides: one wins, nothing is inherited.

Classic keeps the matching entries in a tree sorted by a comparison that is neither antisymmetric nor
transitive, in an order that changes from run to run. Its answer is a fact only where one entry is
before every other, whichever way they are compared. Elsewhere this module decides by one documented
order (:func:`specificity`) and says that the broker would not always have done so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, Destination
from topology.classic.destination_map import DestinationMap
from topology.classic.filters import matches


@dataclass(frozen=True, slots=True)
class Choice:
    """The entries (by their place in the list) that apply to a destination, the one that decides first.

    ``stable`` is whether the broker itself would always decide so.
    """

    ranked: tuple[int, ...]
    stable: bool = True

    @property
    def winner(self) -> int | None:
        """The entry that decides."""
        return self.ranked[0] if self.ranked else None


NO_CHOICE = Choice(())
"""No entry applies."""


def choose(patterns: Sequence[Destination], destination: Destination) -> Choice:
    """Choose among entries that know their destination, as those of a configuration file do.

    Source: ``DestinationMap.chooseValue``.
    """
    found = [
        index
        for index in _map_of(tuple(patterns)).candidates(destination)
        if patterns[index] == destination or matches(patterns[index], destination)
    ]
    return _ranked(patterns, found, destination)


def choose_put(patterns: Sequence[Destination], destination: Destination) -> Choice:
    """Choose among entries put with ``map.put(destination, policy)``, whose policies do not know theirs.

    There the broker's answer is a fact only if a single entry is found.
    """
    found = _map_of(tuple(patterns)).candidates(destination)
    ranked = _ranked(patterns, found, destination)
    return Choice(ranked.ranked, stable=len(found) <= 1)


def compare(one: Destination, other: Destination) -> int:
    """The sign of the broker's comparison: negative if ``one`` is the more specific.

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
    """The order that decides where the broker does not; smaller is more specific.

    A plain name before a pattern; then more words that are no wildcard; then fewer ``>``; then more words;
    then the alphabet.
    """
    words = pattern.paths
    plain = sum(word not in {ANY_CHILD, ANY_DESCENDANT} for word in words)
    return pattern.pattern, -plain, words.count(ANY_DESCENDANT), -len(words), pattern.name


@lru_cache(maxsize=16)
def _map_of(patterns: tuple[Destination, ...]) -> DestinationMap:
    """One map serves all sources: a file may have thousands of entries, and as many sources."""
    return DestinationMap(patterns)


def _ranked(patterns: Sequence[Destination], found: list[int], destination: Destination) -> Choice:
    """Take the best again and again; stable is only said of the first."""
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
    """Whether an entry comes first in a sorted tree in whatever order the others were added."""

    def signed(one: Destination, other: Destination) -> int:
        if one == destination:
            return -1
        return 1 if other == destination else compare(one, other)

    mine = patterns[index]
    return all(signed(mine, patterns[other]) < 0 < signed(patterns[other], mine) for other in others if other != index)


def _as_java_sorts(name: str) -> bytes:
    """Java compares UTF-16 units, not characters."""
    return name.encode("utf-16-be", errors="surrogatepass")
