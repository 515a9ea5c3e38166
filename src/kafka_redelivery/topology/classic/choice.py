"""Choice among several policy entries that match a destination: one wins, and nothing is inherited.

Classic sorts the matching entries in a tree, by a comparison that is neither antisymmetric nor transitive and in an
order that changes from run to run. Its choice is only certain where one entry comes before every other, whichever way
they are compared. Elsewhere, this module chooses by one documented order (:func:`specificity`) and marks the choice as
not stable.

Matching of destinations with patterns: ``*`` matches one word, ``>`` any number of words at the end.

A wildcard character inside a word has no special meaning.

Source: ``DestinationFilter`` and its subclasses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from kafka_redelivery.topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, Destination, DestinationKind


@dataclass(slots=True)
class _Node:
    """One word of the patterns: the entries whose pattern ends here, and the words that follow."""

    entries: list[int] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)

    def below(self) -> Iterator[int]:
        """Yield the entries of all nodes below this one."""
        for child in self.children.values():
            yield from child.entries
            yield from child.below()


class DestinationMap:
    """Patterns by their index in a list; a composite is stored under each of its parts."""

    def __init__(self, patterns: Iterable[Destination]) -> None:
        self._roots = {kind: _Node() for kind in DestinationKind}
        for index, pattern in enumerate(patterns):
            self._add(pattern, index)

    def candidates(self, destination: Destination) -> list[int]:
        """Return the indexes of all entries that the broker's map returns, in the order of the list.

        These can be more than those that match: a destination with wildcards of its own also returns the entries below.

        Source: ``DestinationMap.get`` and ``DestinationMapNode.appendMatchingValues``.
        """
        found: set[int] = set()
        for part in destination.parts if destination.composite else (destination,):
            _collect([self._roots[part.kind]], part.paths, found)
        return sorted(found)

    def _add(self, pattern: Destination, index: int) -> None:
        for part in pattern.parts if pattern.composite else (pattern,):
            node = self._roots[part.kind]
            for word in part.paths:
                node = node.children.setdefault(word, _Node())
            node.entries.append(index)


def _collect(nodes: list[_Node], words: Sequence[str], found: set[int]) -> None:
    """Follow the words from the nodes, and collect the entries on the way whose wildcards match."""
    for index, word in enumerate(words):
        if word == ANY_DESCENDANT:
            for node in nodes:
                found.update(node.below(), node.entries)
            return
        for node in nodes:
            _collect_wildcards(node, words[index + 1 :], found)
        if word == ANY_CHILD:
            nodes = [child for node in nodes for child in node.children.values()]
        else:
            nodes = [node.children[word] for node in nodes if word in node.children]
    for node in nodes:
        found.update(node.entries)
        # A.> also matches A.
        if ANY_DESCENDANT in node.children:
            found.update(node.children[ANY_DESCENDANT].entries)


def _collect_wildcards(node: _Node, rest: Sequence[str], found: set[int]) -> None:
    if ANY_CHILD in node.children:
        _collect([node.children[ANY_CHILD]], rest, found)
    if ANY_DESCENDANT in node.children:
        anything = node.children[ANY_DESCENDANT]
        found.update(anything.entries, anything.below())


class FilterKind(StrEnum):
    """The class of filter that the broker uses for a pattern."""

    COMPOSITE = "CompositeDestinationFilter"
    PREFIX = "PrefixDestinationFilter"
    WILDCARD = "WildcardDestinationFilter"
    SIMPLE = "SimpleDestinationFilter"


def filter_kind(pattern: Destination) -> FilterKind:
    """Return the kind of filter that the broker creates for a pattern."""
    if pattern.composite:
        return FilterKind.COMPOSITE
    if pattern.paths[-1] == ANY_DESCENDANT:
        return FilterKind.PREFIX
    return FilterKind.WILDCARD if ANY_CHILD in pattern.paths else FilterKind.SIMPLE


def matches(pattern: Destination, destination: Destination) -> bool:
    """Whether the pattern matches the destination; both must be of the same kind."""
    kind = filter_kind(pattern)
    if kind is FilterKind.COMPOSITE:
        return any(matches(part, destination) for part in pattern.parts)
    if pattern.kind is not destination.kind:
        return False
    if kind is FilterKind.PREFIX:
        return _matches_prefix(_without_repetition(pattern.paths), destination.paths)
    if kind is FilterKind.WILDCARD:
        wanted, words = pattern.paths, destination.paths
        return len(wanted) == len(words) and all(
            want in {ANY_CHILD, word} for want, word in zip(wanted, words, strict=True)
        )
    return pattern.name == destination.name


def _without_repetition(words: Sequence[str]) -> list[str]:
    """``A.>.>`` is treated as ``A.>``."""
    end = len(words)
    while end and words[end - 1] == ANY_DESCENDANT:
        end -= 1
    return [*words[:end], ANY_DESCENDANT]


def _matches_prefix(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """``A.>`` also matches ``A``. A ``*`` in the destination itself matches any word, too."""
    if len(words) < len(wanted) - 1:
        return False
    return all(ANY_CHILD in {want, word} or want == word for want, word in zip(wanted[:-1], words, strict=False))


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
