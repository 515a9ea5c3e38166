"""The fingerprint of a failure: a hash of the exception class and the message without its variable parts.

Failures with the same fingerprint are counted as one kind. The functions are pure: the same text has the same
fingerprint on every machine and in every version of Python. A change of the rules changes all fingerprints, so
:data:`RULES_VERSION` is part of the hash.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

RULES_VERSION: Final = 1

MAX_CHARACTERS: Final = 1000
"""Characters of a message that count; the rest is cut off. A dead letter carries at most 800 bytes of the message."""

_HEX_DIGITS: Final = 16

# The first alternative that matches wins, so compound forms come before the forms they contain.
_VARIABLE: Final = re.compile(
    r"""
      (?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?Z|\s?[+-]\d\d:?\d\d)?)?(?!\w)
              |(?<!\w)\d\d:\d\d:\d\d(?:[.,]\d+)?(?!\w))
    | (?P<uuid>(?<!\w)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\w))
    | (?P<text>"[^"]*(?:"|$) | (?<![\w>])'[^']*(?:'(?!\w)|$))
    | (?P<number>(?<!\w)[-+]?\d+(?:[.,]\d+)*(?!\w))
    | (?P<id>\w*\d\w*)
    """,
    re.VERBOSE,
)
"""Times, UUIDs, quoted text (no closing quote where the message was cut), numbers, words with a digit."""

_BLANKS: Final = re.compile(r"\s+")


def normalise(message: str) -> str:
    """Replace each part of a message that varies between failures of one kind by a placeholder.

    The placeholders are ``<time>``, ``<uuid>``, ``<text>`` (quoted), ``<number>`` and ``<id>`` (any other word with a
    digit). The result has no digit and no line break. Apply it once: the result for unbalanced quotes may have another
    normal form itself.
    """
    return _BLANKS.sub(" ", _VARIABLE.sub(_placeholder, message[:MAX_CHARACTERS])).strip()


@lru_cache(maxsize=4096)
def fingerprint(exception: str, message: str) -> str:
    """Return the fingerprint of a failure: 16 hex digits.

    Args:
        exception: the name of the exception class.
        message: the normal form of the message, see :func:`normalise`.
    """
    text = f"{RULES_VERSION}\n{exception}\n{message}"
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HEX_DIGITS]


def _placeholder(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"
