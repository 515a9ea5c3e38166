"""JSON documents with more or fewer blanks, token by token: numbers, escapes and repeated names stay as they are."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s"\[\]{},:]+')
_INDENT: Final = "  "

STYLES: Final = ((",", ":"), (", ", ": "))
"""What stands after items and names: in compact JSON, and by default in Python's."""


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a document, which has to be JSON."""
    return _TOKEN.findall(text)


def one_line(tokens: list[str], style: tuple[str, str]) -> str:
    """Return a document in one line."""
    after = {",": style[0], ":": style[1]}
    return "".join(after.get(token, token) for token in tokens)


def style_of(text: str) -> tuple[str, str] | None:
    """Return in which of :data:`STYLES` a document is written in one line; ``None`` in another one."""
    tokens = tokens_of(text)
    return next((style for style in STYLES if one_line(tokens, style) == text), None)


def indented(text: str) -> str:
    """Return a document with a line for each item."""
    found: list[str] = []
    depth, previous = 0, ""
    for each in tokens_of(text):
        closes = each in {"]", "}"}
        depth -= closes
        if (closes and previous not in {"[", "{"}) or (previous in {"[", "{", ","} and not closes):
            found.append("\n" + _INDENT * depth)
        found.append(": " if each == ":" else each)
        depth += each in {"[", "{"}
        previous = each
    return "".join(found)
