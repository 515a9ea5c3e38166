"""The header ``redrive`` of a record that was sent again from a dead-letter topic: ``job/slice@offset/number``.

``slice@offset`` is the dead letter: the slice of the job (a partition of a dead-letter topic) and its offset there.
``number`` says how often the record has been sent again, 1 for the first time. The header stays on retry records of
the copy, and on the dead letter that it may become.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_MARK = 39
"""The longest mark in characters; with it a retry record still has at most 400 bytes of headers."""

_MARK = re.compile(r"([0-9a-z]{1,12})/(\d{1,6})@(\d{1,19})/(\d{1,6})", re.ASCII)


class RedriveMark(NamedTuple):
    """The value of the header."""

    job: str
    slice: int
    offset: int
    number: int

    def __str__(self) -> str:
        return f"{self.job}/{self.slice}@{self.offset}/{self.number}"


def parse_mark(text: str) -> RedriveMark | None:
    """Return the mark; ``None`` if the text is none, as when another program has set the header."""
    found = _MARK.fullmatch(text)
    if found is None:
        return None
    job, *numbers = found.groups()
    return RedriveMark(job, *map(int, numbers))
