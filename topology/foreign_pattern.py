"""Regular expressions that somebody else wrote, compiled in bounded memory and matched in bounded time.

A pattern as ``(a{1,1000}){1,1000}b`` has more ways to fail than any machine can try. Python's own ``re`` tries them all
and cannot be interrupted; the package ``regex`` knows the same expressions and a time-out, but unrolls repetitions.
"""

from __future__ import annotations

import re

import regex

from topology.errors import MatchError

_LONGEST_S = 1.0
"""An honest pattern needs some microseconds."""

LONGEST = 10_000
"""Characters; a longer one is not even looked at."""

_LARGEST = 20_000
"""So many characters and groups a pattern may stand for when its repetitions are written out."""

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


class ForeignPattern:
    """What Python's ``re`` would make of a text, for whole names."""

    def __init__(self, text: str, shown: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        """Compile it.

        Args:
            text: as ``re`` writes it.
            shown: as whoever wrote it has it.
            flags: of ``re``; ``ASCII`` or none.

        Raises:
            re.error: it is no regular expression, or stands for too much.
        """
        self._shown = shown
        if len(text) > 2 * LONGEST:  # what is written in another way may be longer than what was written
            raise re.error("it is longer than can be meant")
        try:
            re.compile(text, flags)
            if _size(text) > _LARGEST:
                raise re.error("its repetitions come to more than can be meant", text)
            ascii_only = regex.ASCII if flags & re.ASCII else 0
            self._pattern = regex.compile(_braces_escaped(text), regex.VERSION0 | ascii_only)
        except (regex.error, RecursionError, OverflowError, ValueError) as error:
            raise re.error(str(error), text) from None

    def matches(self, name: str) -> bool:
        """Whether it means the whole name.

        Raises:
            MatchError: that cannot be told in a second.
        """
        try:
            return self._pattern.fullmatch(name, timeout=_LONGEST_S) is not None
        except TimeoutError:
            problem = f"cannot be compared with {name[:60]!r} in a second: it repeats what repeats, as (a+)+ does"
            raise MatchError(self._shown, problem) from None


def _braces_escaped(text: str) -> str:
    """With braces that repeat nothing written as the characters they are: to ``regex`` they mean more."""
    return _PIECE.sub(lambda piece: r"\{" if piece["brace"] else piece[0], text)


def _size(text: str) -> int:
    """How long a pattern is with its repetitions written out, about."""
    outer: list[int] = []
    here = last = 0
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            outer.append(here + last)
            here, last = 0, 0
        elif piece["close"] and outer:
            here, last = outer.pop(), here + last + 1
        elif piece["least"]:
            last *= max(1, int(piece["least"]))  # those that may follow are not unrolled
        else:
            here, last = here + last, 1
    return sum(outer) + here + last
