"""Translates Java's regular expressions to Python's, as far as names of destinations need it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_redelivery.topology.java.bounded_pattern import MAX_PATTERN_CHARACTERS, UntrustedPattern

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_ESCAPES = {"h": " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000", "e": "\\x1b"}
_TOKEN = re.compile(
    r"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z)
    |\\(?P<polarity>[pP])\{(?P<property>\w+)\}
    |\\x\{(?P<point>[0-9a-fA-F]{1,6})\}
    |\\0(?P<octal>[0-7]{1,3})
    |\\k<(?P<backward>\w+)>
    |\\(?P<escape>.)
    |\(\?<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>
    |(?P<refused>\(\?[P\#(]|(?<![^(|])\{|\{(?![0-9]+(?:,[0-9]*)?\}))
    |(?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def java_pattern(text: str) -> UntrustedPattern:
    """Compile a pattern of Java for whole names; its classes of digits, words and spaces are ASCII, as in Java.

    Raises:
        re.error: the pattern is not valid, is too long, or has a construct that only Java supports.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise re.error("it is too long")
    try:
        return UntrustedPattern("".join(_translated(text)), text, re.ASCII)
    except (ValueError, OverflowError, RecursionError) as error:
        raise re.error(str(error), text) from None


def _translated(text: str) -> Iterator[str]:
    in_class = False
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "plain":
            if in_class and (token[0] == "[" or text.startswith("&&", token.start())):
                raise re.error("only Java supports sets within sets", text, token.start())
            in_class = token[0] == "[" or (in_class and token[0] != "]")
            yield token[0]
        elif token.lastgroup == "refused":
            if not in_class:
                raise re.error(f"{token[0]!r} has no meaning in Java here", text, token.start())
            yield token[0]
        else:
            yield _one(token, text, in_class=in_class)


def _one(token: re.Match[str], text: str, *, in_class: bool) -> str:
    """Return the translation of a token that Java writes in its own way."""
    match token.lastgroup:
        case "quoted":
            return re.escape(token["quoted"])
        case "property":
            return _property(token["property"], text, negated=token["polarity"] == "P", in_class=in_class)
        case "point":
            return re.escape(chr(min(int(token["point"], 16), 0x10FFFF)))
        case "octal":
            return re.escape(chr(int(token["octal"], 8)))
        case "backward":
            return f"(?P={token['backward']})"
        case "group":
            return f"(?P<{token['group']}>"
        case _:
            return _escape(token["escape"], in_class=in_class)


def _escape(letter: str, *, in_class: bool) -> str:
    if letter == "z":
        return "\\Z"
    if letter == "Z":
        return "(?=\\n?\\Z)"
    if letter in _ESCAPES:
        return _ESCAPES[letter] if in_class else f"[{_ESCAPES[letter]}]"
    return f"\\{letter}"


def _property(name: str, text: str, *, negated: bool, in_class: bool) -> str:
    inside = _CLASSES.get(name)
    if inside is None or (negated and in_class):
        raise re.error(f"\\p{{{name}}} is not supported", text)
    if in_class:
        return inside
    return f"[{'^' if negated else ''}{inside}]"
