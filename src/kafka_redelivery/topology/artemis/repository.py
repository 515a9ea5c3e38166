"""Address settings by match, and the settings that apply to an address.

In a match ``*`` stands for one word, ``#`` for any number of words at the end. :func:`compare` orders matches with
wildcards, from the most to the least specific.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key, lru_cache
from itertools import pairwise
from typing import Any

from kafka_redelivery.topology.artemis.address_settings import AddressSettings, merged
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.java.regex import MAX_PATTERN_CHARACTERS, UntrustedPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Wildcards:
    """The characters that ``wildcard-addresses`` sets."""

    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"

    def used_in(self, match: str) -> bool:
        """Whether a match contains a wildcard."""
        return self.any_words in match or self.single_word in match


DEFAULT_WILDCARDS = Wildcards()

_BRACE = re.compile(r"(?<!\\)\{(?!\d+(,\d*)?\})")
"""A brace that is no repetition: Java refuses it, Python takes it as a character."""


def verify(match: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> None:
    """Check a match.

    Raises:
        MatchError: the any-words character is not at the end.
    """
    if wildcards.any_words in match[:-1]:
        raise MatchError(match, f"may contain {wildcards.any_words} only at its end")


def matches(match: str, address: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> bool:
    """Whether an address matches.

    Raises:
        MatchError: the match cannot be used, or matching takes too long.
    """
    return compiled(match, wildcards).matches(address)


@lru_cache(maxsize=4096)
def compiled(match: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> UntrustedPattern:
    """Return the regular expression that the broker makes of a match.

    Like the broker, it escapes only dots and dollar signs. Any other special character keeps its meaning in a regular
    expression, so ``a+b.#`` also matches ``aab.c``.

    Raises:
        MatchError: the result is not a regular expression, or :func:`verify` refuses the match.

    Source: ``Match.createPattern``.
    """
    if len(match) > MAX_PATTERN_CHARACTERS:
        raise MatchError(f"{match[:60]}...", "is too long")
    verify(match, wildcards)
    delimiter = re.escape(wildcards.delimiter)
    if match == wildcards.any_words:
        text = ".*"
    else:
        # a.# also matches a: the delimiter belongs to the words that follow it.
        text = match.replace(wildcards.delimiter + wildcards.any_words, wildcards.any_words)
        text = text.replace(".", "\\.")
        if not wildcards.used_in("$"):  # as wildcards they work since Artemis 2.50
            text = text.replace("$", "\\$")
        text = text.replace(wildcards.single_word, f"[^{delimiter}]+")
        text = text.replace(wildcards.any_words, f"(?:{delimiter}.+)?")
    if _BRACE.search(text):
        raise MatchError(match, "is not a pattern: { starts a repetition")
    try:
        return UntrustedPattern(text, match)
    except re.error as error:
        raise MatchError(match, f"is not a pattern: {error}") from None


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


Layer = dict[str, Any]
"""The values of one address setting, by their names in ``broker.xml``."""

_QUEUE = "::"
"""Separates address and queue in a fully qualified queue name."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings of one address, and the matches that they come from, the most specific first.

    ``tie`` is whether two of the matches are equally specific, so the broker orders them by their hash.
    """

    settings: AddressSettings
    matches: tuple[str, ...]
    tie: bool


@dataclass(slots=True)
class SettingsRepository:
    """A repository of address settings; a match that is added again replaces the earlier one.

    Source: ``HierarchicalObjectRepository``.
    """

    wildcards: Wildcards = DEFAULT_WILDCARDS
    literal_markers: str | None = None
    """Two characters; a match enclosed in them is taken literally, wildcards included."""

    _exact: dict[str, Layer] = field(default_factory=dict)
    _literal: dict[str, Layer] = field(default_factory=dict)
    _wildcard: dict[str, Layer] = field(default_factory=dict)

    def add(self, match: str, layer: Mapping[str, Any]) -> None:
        """Add one address setting.

        Raises:
            MatchError: the match cannot be used.
        """
        name, literal = self.checked(match)
        if literal:
            self._literal[name] = dict(layer)
        else:
            known = self._wildcard if self.wildcards.used_in(name) else self._exact
            known[name] = dict(layer)

    def checked(self, match: str) -> tuple[str, bool]:
        """Return a match as it is compared with addresses, and whether it is taken literally.

        Raises:
            MatchError: the match cannot be used.
        """
        name, literal = self._unmarked(match)
        name = address_of(name)
        # The broker compiles every match, although it never uses the pattern of a literal or exact one.
        compiled(name, self.wildcards)
        return name, literal

    def resolve(self, address: str) -> Resolved:
        """Return the settings of an address, or of the address of ``address::queue``."""
        name = address_of(address)
        ranked = self._ranked(name)
        tie = any(compare(one, other, self.wildcards) == 0 for one, other in pairwise(ranked))
        found = [(name, known[name]) for known in (self._exact, self._literal) if name in known]
        found += [(match, self._wildcard[match]) for match in ranked]
        return Resolved(merged([layer for _, layer in found]), tuple(match for match, _ in found), tie)

    def _ranked(self, address: str) -> list[str]:
        def signed(one: str, other: str) -> int:
            return compare(one, other, self.wildcards)

        applying = [match for match in hash_order(self._wildcard) if matches(match, address, self.wildcards)]
        return sorted(applying, key=cmp_to_key(signed))

    def _unmarked(self, match: str) -> tuple[str, bool]:
        markers = self.literal_markers
        if not markers:
            return match, False
        if not match:
            raise MatchError(
                match, "is empty; with literal-match-markers, the broker does not start with an empty match"
            )
        if match[0] == markers[0] and match[-1] == markers[1]:
            return match[1:-1], True
        return match, False


def address_of(name: str) -> str:
    """Return the address of a fully qualified queue name, or the name itself if it is an address."""
    address, found, _ = name.partition(_QUEUE)
    return address if found else name
