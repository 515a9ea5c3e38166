"""Patterns of LIKE, written so that every engine reads them alike."""

from __future__ import annotations

from typing import Final

ESCAPE: Final = "\\"
"""Precedes each character of a canonical pattern that is special and means itself."""

_SPECIAL: Final = frozenset({"%", "_", ESCAPE})


def canonical_pattern(pattern: str, escape: str) -> str | None:
    r"""Return a pattern in which a backslash precedes each ``%``, ``_`` and backslash that means itself.

    Args:
        pattern: as it was written.
        escape: the character after ESCAPE; empty = none, so that a backslash is any character.

    Returns:
        ``None`` if the escape character precedes something else than ``%``, ``_`` or itself.
    """
    made, chars = [], iter(pattern)
    for char in chars:
        if escape and char == escape:
            escaped = next(chars, "")
            if escaped not in {"%", "_", escape}:
                return None
            made.append(ESCAPE * (escaped in _SPECIAL) + escaped)
        else:
            made.append(ESCAPE * (char == ESCAPE) + char)
    return "".join(made)
