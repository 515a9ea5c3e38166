"""Cuts the letters of a slice into the chunks that are sent in one transaction each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Generic, TypeVar

from kafka_redelivery.topology.redrive.job import CHUNK

_T = TypeVar("_T")

_CHUNKS_PER_SECOND = 4
"""With a rate, a chunk has the letters of a quarter of a second, so that they do not arrive in bursts."""

MAX_BYTES = 8 * 2**20
"""Size of the letters of a chunk, unless one alone is larger."""


@dataclass(slots=True)
class Chunk(Generic[_T]):
    """The letters of one transaction."""

    through: int = -1
    """All pending offsets up to this one are in this chunk or in an earlier one; -1 if nothing was pending."""

    letters: list[tuple[int, _T]] = field(default_factory=list)
    """Offset and letter of those that exist."""

    gone: list[int] = field(default_factory=list)
    """Offsets of those that were deleted."""

    last: bool = False


def chunk_size(rate: float | None) -> int:
    """Return the number of letters in a chunk.

    Args:
        rate: letters in a second, ``None`` = unlimited.
    """
    return CHUNK if rate is None else max(1, min(CHUNK, ceil(rate / _CHUNKS_PER_SECOND)))


def chunks(
    pending: Iterable[int], letters: Iterable[tuple[int, int, _T]], size: int, max_bytes: int = MAX_BYTES
) -> Iterator[Chunk[_T]]:
    """Yield the chunks of a slice; the last one also if it is empty.

    Args:
        pending: the offsets to send, ascending.
        letters: offset, size in bytes and letter of what the partition has, ascending by offset.
        size: how many offsets a chunk may have.
        max_bytes: size of its letters, unless one alone is larger.
    """
    chunk, chunk_bytes = Chunk[_T](), 0
    existing = iter(letters)
    here = next(existing, None)
    for offset in pending:
        while here is not None and here[0] < offset:
            here = next(existing, None)
        found = here if here is not None and here[0] == offset else None
        letter_bytes = 0 if found is None else found[1]
        full = len(chunk.letters) + len(chunk.gone) >= size or (
            chunk.letters and chunk_bytes + letter_bytes > max_bytes
        )
        if full:
            yield chunk
            chunk, chunk_bytes = Chunk(), 0
        chunk.through = offset
        chunk_bytes += letter_bytes
        if found is None:
            chunk.gone.append(offset)
        else:
            chunk.letters.append((offset, found[2]))
    chunk.last = True
    yield chunk
