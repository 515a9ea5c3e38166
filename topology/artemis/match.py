"""What a match of an address setting means: ``*`` is one word, ``#`` any number of words at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from topology.errors import MatchError
from topology.foreign_pattern import LONGEST, ForeignPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Wildcards:
    """The characters that ``wildcard-addresses`` chooses."""

    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"

    def used_in(self, match: str) -> bool:
        """Whether a match is more than one address."""
        return self.any_words in match or self.single_word in match


DEFAULT_WILDCARDS = Wildcards()

_BRACE = re.compile(r"(?<!\\)\{(?!\d+(,\d*)?\})")
"""What Java refuses and Python takes for a character."""


def verify(match: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> None:
    """Check a match.

    Raises:
        MatchError: the any-words character stands elsewhere than at the end.
    """
    if wildcards.any_words in match[:-1]:
        raise MatchError(match, f"may have {wildcards.any_words} only at its end")


def matches(match: str, address: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> bool:
    """Whether a match with wildcards means an address.

    Raises:
        MatchError: the match cannot be used, or takes too long.
    """
    return compiled(match, wildcards).matches(address)


@lru_cache(maxsize=4096)
def compiled(match: str, wildcards: Wildcards = DEFAULT_WILDCARDS) -> ForeignPattern:
    """The regular expression that the broker makes of a match.

    It escapes the dot and the dollar sign alone: any other special character of the match keeps its
    meaning in a regular expression, so ``a+b.#`` means ``aab.c``, too.

    Raises:
        MatchError: it is no regular expression, or :func:`verify` refuses it.

    Source: ``Match.createPattern``.
    """
    if len(match) > LONGEST:
        raise MatchError(f"{match[:60]}...", "is longer than can be meant")
    verify(match, wildcards)
    delimiter = re.escape(wildcards.delimiter)
    if match == wildcards.any_words:
        text = ".*"
    else:
        # a.# means a, too: the delimiter belongs to the words that follow it.
        text = match.replace(wildcards.delimiter + wildcards.any_words, wildcards.any_words)
        text = text.replace(".", "\\.").replace("$", "\\$")
        text = text.replace(wildcards.single_word, f"[^{delimiter}]+")
        text = text.replace(wildcards.any_words, f"(?:{delimiter}.+)?")
    if _BRACE.search(text):
        raise MatchError(match, "is no pattern: { begins a repetition")
    try:
        return ForeignPattern(text, match)
    except re.error as error:
        raise MatchError(match, f"is no pattern: {error}") from None
