"""The fingerprint of a failure: a hash of the exception class, its place in the code, and its text.

The parts of the text that vary are left out. Failures with the same fingerprint are counted as one kind. The functions
are pure: the same text has the same fingerprint on every machine and in every version of Python. A change of the rules
changes fingerprints, so the version of the rules is part of the hash.

Dead letters of earlier versions name no place. Their fingerprints are those of the first version of the rules, so that
they are the same in archives, reports and links. That version also replaces identifiers and codes.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

RULES_VERSION: Final = 2

MAX_CHARACTERS: Final = 1000
"""Characters of a message that are looked at. A dead letter carries at most 800 bytes of the message."""

_NORMAL_CHARACTERS: Final = 300
"""Characters of a normal form that count, so that it hardly matters where a dead letter cuts the message."""

_HEX_DIGITS: Final = 16

# The first alternative that matches wins, so compound forms come before the forms they contain.
_PARTS: Final = r"""
      (?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?Z|\s?[+-]\d\d:?\d\d)?)?(?!\w)
              |(?<!\w)\d\d:\d\d:\d\d(?:[.,]\d+)?(?!\w))
    | (?P<uuid>(?<!\w)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\w))
    | (?P<text>"[^"]*(?:"|$) | (?<![\w>])'[^']*(?:'(?!\w)|$))
    | (?P<number>(?<!\w)[-+]?\d+(?:[.,]\d+)*(?!\w))
    | (?P<id>\w*\d\w*)
    """
"""Times, UUIDs, quoted text (no closing quote where the message was cut), numbers, words with a digit."""

_CODE: Final = r"""
    | (?i:["']?\b(?:HTTPS?(?:/\d(?:\.\d)?)?(?:[\ _-]?(?:status|error|code|response))*|status(?:[\ _-]?code)?|Response))
      ["']?[\ \t]*[:=(\[]?[\ \t]*[1-5]\d\d(?![\w-])(?![.,:]\d)
    | \b[1-5]\d\d(?=\ (?:Client|Server)\ Error\b)
    | (?<=[Cc]lient\ error\ )'[1-5]\d\d[A-Za-z\ -]*'
    | (?<=[Ss]erver\ error\ )'[1-5]\d\d[A-Za-z\ -]*'
    | \A[1-5]\d\d(?=,\ message=)
"""
"""A code beside a word that says it is one, as urllib, requests, httpx and aiohttp write it."""

_NAME: Final = "'[A-Za-z_]+(?:\\.[A-Za-z_]+)*'"
_IDENTIFIER: Final = rf"""
    | {_NAME}(?=\ object\ (?:has|is|does|cannot)\b)
    | (?<=\bobject\ ){_NAME}(?=\ has\ no\ attribute\b)
    | (?<=\bmodule\ ){_NAME}(?=\ has\ no\ attribute\b)
    | (?<=\bhas\ no\ attribute\ ){_NAME}
    | (?<=\bname\ ){_NAME}(?=\ is\ not\ defined\b)
    | (?<=\bvariable\ ){_NAME}(?=\ where\b)
    | (?<=\bmodule\ named\ ){_NAME}
    | (?<=\bimport\ name\ ){_NAME}
    | (?<=\bkeyword\ argument\ ){_NAME}
"""
"""An identifier where Python itself writes it."""

_FIRST: Final = re.compile(_PARTS, re.VERBOSE)
_VARIABLE: Final = re.compile(rf"(?P<kept> (?!){_CODE}) | {_PARTS}", re.VERBOSE)
_VARIABLE_OF_PYTHON: Final = re.compile(rf"(?P<kept> (?!){_CODE}{_IDENTIFIER}) | {_PARTS}", re.VERBOSE)

_PYTHONS: Final = frozenset(
    {"AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "TypeError", "UnboundLocalError"}
)
"""Exceptions of Python whose texts name identifiers."""

_KEY: Final = re.compile(_NAME)
"""The text of a `KeyError` of a name. Other keys vary, such as ids, which have a digit."""

_BLANKS: Final = re.compile(r"\s+")


def normalise(message: str, exception: str = "") -> str:
    """Replace each part of a message that varies between failures of one kind by a placeholder.

    The placeholders are ``<time>``, ``<uuid>``, ``<text>`` (quoted), ``<number>`` and ``<id>`` (any other word with a
    digit). What tells causes apart stays: identifiers without a digit where Python itself writes them, and a code of
    three digits beside a word such as HTTP or status. So no other digit is left, and no line break. Apply it once: the
    result for unbalanced quotes may have another normal form itself.

    Args:
        message: the text of the exception.
        exception: the name of its class.
    """
    if exception == "KeyError" and _KEY.fullmatch(message):
        return message
    return _normal(message, _VARIABLE_OF_PYTHON if exception in _PYTHONS else _VARIABLE)[:_NORMAL_CHARACTERS]


def kind_of(exception: str, message: str, place: str | None) -> tuple[str, str]:
    """Return the normal form of a failure's text, and its fingerprint: 16 hex digits.

    Args:
        exception: the name of the exception class.
        message: its text; empty if texts are hidden.
        place: the place in the code, ``module.function``; empty if there is none, and ``None`` of dead letters of
            earlier versions.
    """
    if place is None:
        normal = _normal(message, _FIRST)
        return normal, _digest(f"1\n{exception}\n{normal}")
    normal = normalise(message, exception)
    return normal, _digest(f"{RULES_VERSION}\n{exception}\n{place}\n{normal}")


def _normal(message: str, variable: re.Pattern[str]) -> str:
    return _BLANKS.sub(" ", variable.sub(_placeholder, message[:MAX_CHARACTERS])).strip()


@lru_cache(maxsize=4096)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HEX_DIGITS]


def _placeholder(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "kept" else f"<{found.lastgroup}>"
