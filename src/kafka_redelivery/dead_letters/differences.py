"""What differs between two dead letters, or between two versions of a value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq
from typing import Any, Final

_ABSENT = object()

_COMPARED: Final = 1_000_000
"""Pairs of lines that are compared at most. The time for many lines that are alike grows with the cube of their number,
and a record can have millions."""

_AROUND: Final = 3
"""Lines that are shown around a difference."""

_HUNK: Final = re.compile(r"\A@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


def changes(before: Any, after: Any, path: str = "$") -> Iterator[dict[str, Any]]:  # noqa: ANN401 - any JSON
    """Yield what differs between two JSON values, by path; what only one of them has lacks the other's field."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from changes(before.get(name, _ABSENT), after.get(name, _ABSENT), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            old, new = (each[number] if number < len(each) else _ABSENT for each in (before, after))
            yield from changes(old, new, f"{path}[{number}]")
    elif type(before) is not type(after) or before != after:
        sides = {"before": before, "after": after}
        yield {"path": path} | {name: value for name, value in sides.items() if value is not _ABSENT}


def line_diff(before: Sequence[str], after: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    """Yield a unified diff of two texts, in a time that grows with their length.

    If too many lines differ to be compared, all of them are removed and added.
    """
    start = _equal(before, after)
    end = _equal(before[start:][::-1], after[start:][::-1])
    head, tail = max(0, start - _AROUND), max(0, end - _AROUND)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(old) * len(new) <= _COMPARED:
        for line in difflib.unified_diff(old, new, *names, lineterm=""):
            yield _HUNK.sub(lambda hunk: f"@@ -{int(hunk[1]) + head}{hunk[2]} +{int(hunk[3]) + head}{hunk[4]} @@", line)
        return
    yield from (f"--- {names[0]}", f"+++ {names[1]}")
    yield f"@@ -{head + 1},{len(old)} +{head + 1},{len(new)} @@"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def _equal(one: Sequence[str], other: Sequence[str]) -> int:
    """Return with how many equal lines both begin."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))
