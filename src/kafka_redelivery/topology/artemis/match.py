"""Matches of address settings: ``*`` matches one word, ``#`` any number of words at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.java.bounded_pattern import MAX_PATTERN_CHARACTERS, UntrustedPattern


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
        text = text.replace(".", "\\.").replace("$", "\\$")
        text = text.replace(wildcards.single_word, f"[^{delimiter}]+")
        text = text.replace(wildcards.any_words, f"(?:{delimiter}.+)?")
    if _BRACE.search(text):
        raise MatchError(match, "is not a pattern: { starts a repetition")
    try:
        return UntrustedPattern(text, match)
    except re.error as error:
        raise MatchError(match, f"is not a pattern: {error}") from None
