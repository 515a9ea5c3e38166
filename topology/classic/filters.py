"""Which destinations a pattern means: ``*`` is one word, ``>`` any number of words at the end.

Source: ``DestinationFilter`` and its subclasses. A wildcard character inside a word means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, Destination


class FilterKind(StrEnum):
    """How a pattern is compared with names."""

    COMPOSITE = "CompositeDestinationFilter"
    PREFIX = "PrefixDestinationFilter"
    WILDCARD = "WildcardDestinationFilter"
    SIMPLE = "SimpleDestinationFilter"


def filter_kind(pattern: Destination) -> FilterKind:
    """What the broker makes of a pattern."""
    if pattern.composite:
        return FilterKind.COMPOSITE
    if pattern.paths[-1] == ANY_DESCENDANT:
        return FilterKind.PREFIX
    return FilterKind.WILDCARD if ANY_CHILD in pattern.paths else FilterKind.SIMPLE


def matches(pattern: Destination, destination: Destination) -> bool:
    """Whether the pattern means the destination; the kinds must be the same."""
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
    """``A.>.>`` is ``A.>``."""
    end = len(words)
    while end and words[end - 1] == ANY_DESCENDANT:
        end -= 1
    return [*words[:end], ANY_DESCENDANT]


def _matches_prefix(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """``A.>`` also means ``A``. A ``*`` in the destination itself stands for any word, too."""
    if len(words) < len(wanted) - 1:
        return False
    return all(ANY_CHILD in {want, word} or want == word for want, word in zip(wanted[:-1], words, strict=False))
