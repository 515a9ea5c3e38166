"""Which of two matches with wildcards is the more specific."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topology.artemis.match import DEFAULT_WILDCARDS, Wildcards

_LEAST_BUCKETS = 16
_LOAD = 0.75


def compare(one: str, other: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> int:
    """The sign of the broker's comparison: negative if ``one`` is the more specific, 0 for a tie.

    Without any-words before with; both with: the longer first, by characters; both with single words
    alone: the first word that is a wildcard in one only decides, then length.

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
        for place, word in enumerate(mine):
            if place >= len(theirs):
                return -1
            if (word == single_word) != (theirs[place] == single_word):
                return 1 if word == single_word else -1
    return _sign(len(one) - len(other))


def hash_order(names: Iterable[str]) -> list[str]:
    """Names in the order in which Java's ``HashMap`` gives them back; among ties this order decides."""
    known = list(names)
    buckets = _LEAST_BUCKETS
    while len(known) > buckets * _LOAD:
        buckets *= 2
    return sorted(known, key=lambda name: _spread_hash(name) % buckets)


def _spread_hash(name: str) -> int:
    code = 0
    units = name.encode("utf-16-be", errors="surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _words(match: str, wildcards: Wildcards) -> Sequence[str]:
    """Split as Java splits: empty words at the end do not count."""
    words = match.split(wildcards.delimiter)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
