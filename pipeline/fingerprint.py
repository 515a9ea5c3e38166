"""What makes two failures the same: the class of the exception, and its message without what differs each time.

Pure: the same text gives the same fingerprint on every machine and in every version of Python. To change the rules
is to change all fingerprints, so :data:`RULES_VERSION` goes into them.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

RULES_VERSION: Final = 1

LONGEST: Final = 1000
"""So many characters of a message are looked at. A dead letter carries at most 800 bytes of it."""

_HEX_DIGITS: Final = 16

# The first that fits at a place counts, so what is made of others stands before them.
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
"""Times, UUIDs, quoted text (cut text has no closing quote), numbers, and words that hold a digit: hex, keys, ids."""

_BLANKS: Final = re.compile(r"\s+")


def normalise(message: str) -> str:
    """The message with a placeholder for each part that differs from one failure of a kind to the next.

    ``<time>``, ``<uuid>``, ``<text>`` (quoted), ``<number>`` and ``<id>`` (any other word with a digit in it). The
    result holds no digit and no line break, and is its own normal form.
    """
    return _BLANKS.sub(" ", _VARIABLE.sub(_placeholder, message[:LONGEST])).strip()


@lru_cache(maxsize=4096)
def fingerprint(exception: str, message: str) -> str:
    """The fingerprint of a failure, from its :func:`normalise` d message: 16 hex digits.

    Args:
        exception: the class.
        message: normalised.
    """
    text = f"{RULES_VERSION}\n{exception}\n{message}"
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HEX_DIGITS]


def _placeholder(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"
