"""The order of matches with wildcards, from the most to the least specific."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafka_redelivery.topology.artemis.match import DEFAULT_WILDCARDS, Wildcards

_MIN_BUCKETS = 16
_LOAD_FACTOR = 0.75


def compare(one: str, other: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> int:
    """Return the sign of the broker's comparison: negative if ``one`` is more specific, 0 for a tie.

    A match without the any-words wildcard is more specific than one with it. Of two with it, the one with more
    characters is more specific. Of two with single-word wildcards only, the first word that is a wildcard in just one
    of them decides. If there is none, ``one`` is more specific if it has more words; otherwise, the match with fewer
    characters is.

    Source: ``HierarchicalObjectRepository.MatchComparator``.
    """
    any_words, single_word = wildcards.any_words, wildcards.single_word
    if (any_words in one) != (any_words in other):
        return 1 if any_words in one else -1
    if any_words in one:
        return _sign(len(other) - len(one))
    if (single_word in one) != (single_word in other):
        return 1 if single_word in one else -1
    if single_word in one:
        mine, theirs = _words(one, wildcards), _words(other, wildcards)
        for index, word in enumerate(mine):
            if index >= len(theirs):
                return -1
            if (word == single_word) != (theirs[index] == single_word):
                return 1 if word == single_word else -1
    return _sign(len(one) - len(other))


def hash_order(names: Iterable[str]) -> list[str]:
    """Sort names in the iteration order of Java's ``HashMap``, which decides among ties."""
    listed = list(names)
    buckets = _MIN_BUCKETS
    while len(listed) > buckets * _LOAD_FACTOR:
        buckets *= 2
    return sorted(listed, key=lambda name: _spread_hash(name) % buckets)


def _spread_hash(name: str) -> int:
    code = 0
    units = name.encode("utf-16-be", errors="surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _words(match: str, wildcards: Wildcards) -> Sequence[str]:
    """Split a match like Java, which drops empty words at the end."""
    words = match.split(wildcards.delimiter)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
