"""Progress as text that fits into the metadata of a commit.

``p1:`` + base64 of: a flag, how far the partition was read, the offsets *not* finished up to there,
the records that wait in place, and a CRC-32. What is outstanding is listed, not what is finished: its
size follows the records held, and holes in the offsets cost nothing. ``p2:`` has a note of what was handed out in
front of the waiting records, and is written only where there is something to note.

The outstanding offsets are written as runs or as stretches of a bitmap, whichever is shorter.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

METADATA_LIMIT = 4096
"""Most bytes of commit metadata that a broker accepts by default (``offset.metadata.max.bytes``)."""

HOLE_BITS = 96
"""A new stretch of the bitmap costs less than this many bits: two varints of six bytes."""

WAITING_BYTES = 28
"""Upper bound of one waiting record in the text: three varints (9 + 3 + 9 bytes), in base64."""

FIXED_BYTES = 96
"""Upper bound of everything else in the text."""

_FORMAT = "p1:"
_FORMAT_WITH_NOTE = "p2:"
_MOST_OUTSTANDING = 2_000_000
"""More cannot come from us; a damaged text must not fill the memory."""

_RUNS, _STRETCHES = 0, 1


class InPlace(NamedTuple):
    """A record that waits where it is: deliveries made, and when it is due again (epoch ms)."""

    deliveries: int
    due_ms: int


class HandedOut(NamedTuple):
    """What may be in a handler when its worker dies; written before anything of it is handed out."""

    author: int
    """Which process wrote it, by a number of its own (32 bits, not 0)."""

    end: int = 0
    """Every unfinished record below may be in a handler of the author's. 0 = none."""

    suspect_end: int = 0
    """Every unfinished record below may have killed a worker before. 0 = none."""

    alone: int | None = None
    """The one record that is in a handler, and nothing else of this worker's; it waits in place with its count."""


class Noted(NamedTuple):
    """What the metadata says, beside the committed offset."""

    end: int
    """One past the last offset that was seen."""

    outstanding: set[int]
    """Those below ``end`` that are not finished."""

    waiting: dict[int, InPlace]
    handed_out: HandedOut | None = None


def encode(
    watermark: int,
    end: int,
    outstanding: Sequence[int],
    waiting: Mapping[int, InPlace],
    handed_out: HandedOut | None = None,
) -> str:
    """The text; ``outstanding`` ascends and lies in [watermark, end), and nothing given lies below the watermark."""
    bodies = (_as_runs(watermark, outstanding), _as_stretches(watermark, outstanding))
    flag = _RUNS if len(bodies[0]) <= len(bodies[1]) else _STRETCHES
    packed = bytearray([flag])
    _put(packed, end - watermark)
    _put(packed, len(bodies[flag]))
    packed += bodies[flag]
    if handed_out is not None:
        _put(packed, handed_out.author)
        _put(packed, max(0, handed_out.end - watermark))
        _put(packed, max(0, handed_out.suspect_end - watermark))
        _put(packed, 0 if handed_out.alone is None else handed_out.alone - watermark + 1)
    for offset, record in sorted(waiting.items()):
        _put(packed, offset - watermark)
        _put(packed, record.deliveries)
        _put(packed, record.due_ms)
    packed += zlib.crc32(packed).to_bytes(4, "big")
    return (_FORMAT if handed_out is None else _FORMAT_WITH_NOTE) + base64.b64encode(packed).decode()


def newer_format(metadata: str) -> str | None:
    """The name of a format that only a later version of this project can have written; ``None`` if it is none."""
    found = re.match(r"(p[1-9][0-9]{0,2}):", metadata)
    return None if found is None or metadata.startswith((_FORMAT, _FORMAT_WITH_NOTE)) else found[1]


def decode(watermark: int, metadata: str) -> Noted:
    """The text read back.

    Raises:
        ValueError: it is not ours, or damaged.
    """
    with_note = metadata.startswith(_FORMAT_WITH_NOTE)
    if not (with_note or metadata.startswith(_FORMAT)):
        msg = "not in our format"
        raise ValueError(msg)
    packed = base64.b64decode(metadata[len(_FORMAT) :], validate=True)
    if len(packed) < _SHORTEST or zlib.crc32(packed[:-4]).to_bytes(4, "big") != packed[-4:]:
        msg = "damaged"
        raise ValueError(msg)
    numbers = _Reader(packed[1:-4])
    end = watermark + numbers.number()
    body = _Reader(numbers.take(numbers.number()))
    outstanding = set(_from_stretches(watermark, body) if packed[0] else _from_runs(watermark, body))
    handed_out = _handed_out(watermark, numbers) if with_note else None
    waiting = {}
    while numbers.rest:
        offset = watermark + numbers.number()
        waiting[offset] = InPlace(numbers.number(), numbers.number())
    return Noted(end, outstanding, waiting, handed_out)


def _handed_out(watermark: int, numbers: _Reader) -> HandedOut:
    author, end, suspect_end, alone = (numbers.number() for _ in range(4))
    return HandedOut(
        author,
        watermark + end if end else 0,
        watermark + suspect_end if suspect_end else 0,
        watermark + alone - 1 if alone else None,
    )


_SHORTEST = 7


def _as_runs(watermark: int, offsets: Sequence[int]) -> bytearray:
    body = bytearray()
    last = watermark
    start = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            _put(body, offsets[start] - last)
            _put(body, index - 1 - start)
            last, start = offsets[index - 1], index
    return body


def _from_runs(watermark: int, body: _Reader) -> Iterator[int]:
    last = watermark
    left = _MOST_OUTSTANDING
    while body.rest:
        first = last + body.number()
        last = first + body.number()
        left -= last - first + 1
        if left < 0:
            msg = "more outstanding offsets than there can be"
            raise ValueError(msg)
        yield from range(first, last + 1)


def _as_stretches(watermark: int, offsets: Sequence[int]) -> bytearray:
    body = bytearray()
    last = watermark
    start = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] - offsets[index - 1] > HOLE_BITS:
            first, final = offsets[start], offsets[index - 1]
            bitmap = bytearray((final - first) // 8 + 1)
            for offset in offsets[start:index]:
                place = offset - first
                bitmap[place >> 3] |= 1 << (place & 7)
            _put(body, first - last)
            _put(body, len(bitmap))
            body += bitmap
            last, start = final, index
    return body


def _from_stretches(watermark: int, body: _Reader) -> Iterator[int]:
    last = watermark
    while body.rest:
        first = last + body.number()
        for index, byte in enumerate(body.take(body.number())):
            for bit in range(8):
                if byte >> bit & 1:
                    last = first + (index << 3) + bit
                    yield last


def _put(target: bytearray, number: int) -> None:
    """Append an unsigned varint."""
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        target.append(number & 0x7F | 0x80)
        number >>= 7
    target.append(number)


class _Reader:
    """Takes unsigned varints off the front of a byte string."""

    __slots__ = ("rest",)

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def number(self) -> int:
        value = shift = 0
        for index, byte in enumerate(self.rest):
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
                self.rest = self.rest[index + 1 :]
                return value
        msg = "ends within a number"
        raise ValueError(msg)

    def take(self, length: int) -> bytes:
        if length > len(self.rest):
            msg = "ends too early"
            raise ValueError(msg)
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken
