"""Cuts the letters of a slice into the parts that are sent in one transaction each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Generic, TypeVar

from kafka_redelivery.topology.redrive.job import CHUNK

_T = TypeVar("_T")

_PARTS_PER_SECOND = 4
"""With a rate, a part has the letters of a quarter of a second, so that they do not arrive in bursts."""

MAX_BYTES = 8 * 2**20
"""Size of the letters of a part, unless one alone is larger."""


@dataclass(slots=True)
class Part(Generic[_T]):
    """The letters of one transaction."""

    through: int = -1
    """All pending offsets up to this one are in this part or in an earlier one; -1 if nothing was pending."""

    letters: list[tuple[int, _T]] = field(default_factory=list)
    """Offset and letter of those that exist."""

    gone: list[int] = field(default_factory=list)
    """Offsets of those that were deleted."""

    last: bool = False


def part_size(rate: float | None) -> int:
    """Return the number of letters in a part.

    Args:
        rate: letters in a second, ``None`` = unlimited.
    """
    return CHUNK if rate is None else max(1, min(CHUNK, ceil(rate / _PARTS_PER_SECOND)))


def parts(
    pending: Iterable[int], letters: Iterable[tuple[int, int, _T]], size: int, max_bytes: int = MAX_BYTES
) -> Iterator[Part[_T]]:
    """Yield the parts of a slice; the last one also if it is empty.

    Args:
        pending: the offsets to send, ascending.
        letters: offset, size in bytes and letter of what the partition has, ascending by offset.
        size: how many offsets a part may have.
        max_bytes: size of its letters, unless one alone is larger.
    """
    part, part_bytes = Part[_T](), 0
    existing = iter(letters)
    here = next(existing, None)
    for offset in pending:
        while here is not None and here[0] < offset:
            here = next(existing, None)
        found = here if here is not None and here[0] == offset else None
        letter_bytes = 0 if found is None else found[1]
        full = len(part.letters) + len(part.gone) >= size or (part.letters and part_bytes + letter_bytes > max_bytes)
        if full:
            yield part
            part, part_bytes = Part(), 0
        part.through = offset
        part_bytes += letter_bytes
        if found is None:
            part.gone.append(offset)
        else:
            part.letters.append((offset, found[2]))
    part.last = True
    yield part
