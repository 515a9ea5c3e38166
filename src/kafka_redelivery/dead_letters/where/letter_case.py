"""The letters that `lower` and `upper` change, everywhere the same.

Python and DuckDB have other versions of Unicode, and other rules for letters such as the Turkish dotted I. So this
table, not theirs, is the meaning: letters of the Latin, Greek and Cyrillic alphabets up to U+045F of which each case is
one character.
"""

from __future__ import annotations

from typing import Final

_LATIN_EXTENDED_A_END: Final = 0x180
_GREEK_AND_CYRILLIC: Final = range(0x386, 0x460)


def _pairs() -> list[tuple[str, str]]:
    pairs = []
    for code in (*range(_LATIN_EXTENDED_A_END), *_GREEK_AND_CYRILLIC):
        upper, lower = chr(code), chr(code).lower()
        if upper != lower and len(lower) == 1 and lower.upper() == upper:
            pairs.append((upper, lower))
    return pairs


UPPER: Final = "".join(upper for upper, _ in _pairs())
"""The capital letters."""

LOWER: Final = "".join(lower for _, lower in _pairs())
"""The small letters in the same order."""

_TO_LOWER: Final = str.maketrans(UPPER, LOWER)


def lowered(text: str) -> str:
    """Return a text with its capital letters as small ones."""
    return text.translate(_TO_LOWER)
