"""Compiles untrusted regular expressions in bounded memory and matches them in bounded time.

A pattern such as ``(a{1,1000}){1,1000}b`` backtracks almost without end. Python's ``re`` cannot be interrupted. The
package ``regex`` accepts the same expressions and has a timeout, but it unrolls repetitions, so their size is limited.
"""

from __future__ import annotations

import re

import regex

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
