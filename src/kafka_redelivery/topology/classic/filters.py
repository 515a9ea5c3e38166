"""Matching of destinations with patterns: ``*`` matches one word, ``>`` any number of words at the end.

A wildcard character inside a word has no special meaning.

Source: ``DestinationFilter`` and its subclasses.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from kafka_redelivery.topology.classic.destination import ANY_CHILD, ANY_DESCENDANT, Destination


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
