"""Translates Java's regular expressions to Python's, as far as names of destinations need it.

Untrusted expressions are compiled in bounded memory and matched in bounded time. A pattern such as
``(a{1,1000}){1,1000}b`` backtracks almost without end. Python's ``re`` cannot be interrupted. The package ``regex``
accepts the same expressions and has a timeout, but it unrolls repetitions, so their size is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_redelivery.topology.errors import MatchError

_TIMEOUT_S = 1.0
"""The time limit of a match; usual patterns need microseconds."""

MAX_PATTERN_CHARACTERS = 10_000
"""The length of the longest pattern that is compiled."""

_MAX_SIZE = 20_000
"""The number of characters and groups that a pattern may have when its repetitions are unrolled."""

_PIECE = re.compile(
    r"""
    \\.
    |(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
    |(?P<open>\()
    |(?P<close>\))
    |\{(?P<least>[0-9]+)(?:,[0-9]*)?\}
    |(?P<brace>\{(?![0-9]*,[0-9]*\}))
    |.
    """,
    re.VERBOSE | re.DOTALL,
)


class UntrustedPattern:
    """A regular expression for whole names, with the syntax and meaning of Python's ``re``."""

    def __init__(self, text: str, shown: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        """Compile a pattern.

        Args:
            text: the pattern in the syntax of ``re``.
            shown: the pattern as its author wrote it, for messages.
            flags: ``re.ASCII`` or no flags.

        Raises:
            re.error: the text is not a regular expression, or is too large.
        """
        import regex  # noqa: PLC0415 - costs 2 MB and 30 ms, and most configurations have no such pattern

        self._shown = shown
        if len(text) > 2 * MAX_PATTERN_CHARACTERS:  # a translated pattern may be longer than the original
            raise re.error("it is too long")
        try:
            re.compile(text, flags)
            if _size(text) > _MAX_SIZE:
                raise re.error("its repetitions are too large", text)
            ascii_only = regex.ASCII if flags & re.ASCII else 0
            self._pattern = regex.compile(_braces_escaped(text), regex.VERSION0 | ascii_only)
        except (regex.error, RecursionError, OverflowError, ValueError) as error:
            raise re.error(str(error), text) from None

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole name.

        Raises:
            MatchError: matching takes longer than a second.
        """
        try:
            return self._pattern.fullmatch(name, timeout=_TIMEOUT_S) is not None
        except TimeoutError:
            problem = f"cannot be matched with {name[:60]!r} in a second: it repeats a repetition, as (a+)+ does"
            raise MatchError(self._shown, problem) from None


def _braces_escaped(text: str) -> str:
    """Escape braces that are not repetitions, because ``regex`` gives them a meaning."""
    return _PIECE.sub(lambda piece: r"\{" if piece["brace"] else piece[0], text)


def _size(text: str) -> int:
    """Return the approximate length of a pattern with its repetitions unrolled."""
    outer: list[int] = []
    here = last = 0
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            outer.append(here + last)
            here, last = 0, 0
        elif piece["close"] and outer:
            here, last = outer.pop(), here + last + 1
        elif piece["least"]:
            last *= max(1, int(piece["least"]))  # optional repetitions are not unrolled
        else:
            here, last = here + last, 1
    return sum(outer) + here + last


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
