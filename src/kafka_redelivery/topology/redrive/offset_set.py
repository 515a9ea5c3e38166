"""A sorted set of offsets, in memory and in the value of a record."""

from __future__ import annotations

import base64
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import lt

from kafka_redelivery.topology.java.numbers import LONG_MAX

PART = 65_536
"""Offsets in one record at most. Even scattered ones then take less than a record of a megabyte."""

_MAX_BYTES = 10 * PART
"""Size of the largest decompressed part: an offset takes at most ten bytes."""


_MAX_SHIFT = 56
"""An offset has at most 63 bits, which are nine groups of seven."""


class OffsetSet:
    """Distinct offsets, ascending; eight bytes each."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        given = array("q", offsets)
        ascending = all(map(lt, given, islice(given, 1, None)))  # as they are read; sorting takes ten times the memory
        self._offsets = given if ascending else array("q", sorted(set(given)))

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, offset: int) -> bool:
        at = bisect_left(self._offsets, offset)
        return at < len(self._offsets) and self._offsets[at] == offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and self._offsets == other._offsets

    __hash__ = None  # type: ignore[assignment]

    def without(self, others: Iterable[OffsetSet]) -> OffsetSet:
        """Return the offsets that none of the others contains."""
        taken = [each for each in others if each]
        return OffsetSet(each for each in self if not any(each in other for other in taken)) if taken else self

    def count_up_to(self, offset: int) -> int:
        """Return how many offsets are at most ``offset``."""
        return bisect_left(self._offsets, offset + 1)

    def after(self, offset: int) -> array[int]:
        """Return the offsets above ``offset``."""
        return self._offsets[bisect_left(self._offsets, offset + 1) :]

    def parts(self) -> Iterator[str]:
        """Yield the set as texts of at most :data:`PART` offsets; :func:`read_part` reads one."""
        for first in range(0, len(self._offsets), PART):
            yield _packed(self._offsets[first : first + PART])


def read_part(text: str) -> list[int]:
    """Return the offsets of one part.

    Raises:
        ValueError: the text is no part, or has an offset that Kafka has not.
    """
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), _MAX_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if inflate.unconsumed_tail or not inflate.eof:
        raise ValueError("a part of offsets is too large or cut off")
    offsets, offset, number, shift = [], 0, 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that the number goes on
            offset += number
            if offset > LONG_MAX:
                raise ValueError("an offset is larger than Kafka has")
            offsets.append(offset)
            number = shift = 0
        elif shift > _MAX_SHIFT:  # otherwise a kilobyte of packed data would take seconds
            raise ValueError("a distance between offsets is longer than nine bytes")
    return offsets


def _packed(offsets: Iterable[int]) -> str:
    """Pack the distances between the offsets, seven bits in a byte, the lowest first."""
    data, before = bytearray(), 0
    for offset in offsets:
        distance, before = offset - before, offset
        while distance > 0x7F:  # noqa: PLR2004 - seven bits
            data.append(distance & 0x7F | 0x80)
            distance >>= 7
        data.append(distance)
    return base64.b64encode(zlib.compress(bytes(data))).decode()
