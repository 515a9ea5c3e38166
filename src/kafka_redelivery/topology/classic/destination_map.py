"""A map of destination patterns, and the entries that the broker's map returns for a destination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafka_redelivery.topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, Destination, Kind


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
        self._roots = {kind: _Node() for kind in Kind}
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
