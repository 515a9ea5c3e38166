"""Encoding of progress as text for the metadata of a commit.

The text is ``p1:`` and the base64 of: a flag, how far the partition was read, the offsets up to there that are *not*
finished, the records that wait in place, and a CRC-32. It lists the outstanding offsets rather than the finished ones,
so its size depends on the records in progress, and holes in the offsets cost nothing. ``p2:`` additionally has a
delivery note before the waiting records, and is only written if there is one. ``p3:`` and ``p4:`` are the same with the
committed offset after the flag, so that a text beside another offset is noticed. They are written from feature level
:data:`BOUND_LEVEL` of the group on.

From feature level 3 on each commit names its topic: ``p5:``, the mark of the topic
(:mod:`kafka_redelivery.topology.wire.topic_mark`), and the text in one of the other formats, if there is one.

The outstanding offsets are written as runs or as stretches of a bitmap, whichever is shorter.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.wire.topic_mark import MARKED, MARKED_LENGTH, split_mark

METADATA_LIMIT = 4096
"""How many bytes of commit metadata a broker accepts by default (``offset.metadata.max.bytes``).

The client commits a NUL byte behind the text. It fits: the text is never that long, because its length is 2 or 3 more
than a multiple of 4 (base64 behind a prefix of 3 characters, and 15 more that name the topic).
"""

HOLE_BITS = 96
"""Upper bound of the bits that a new stretch of the bitmap costs: two varints of six bytes."""

WAITING_BYTES = 28
"""Upper bound of the bytes of one waiting record in the text: three varints (9 + 3 + 9 bytes), in base64."""

FIXED_BYTES = 96 + MARKED_LENGTH
"""Upper bound of the bytes of everything else in the text."""

BOUND_LEVEL = 2
"""The feature level from which on the metadata names its committed offset."""

_FORMAT, _FORMAT_WITH_NOTE = "p1:", "p2:"
_BOUND_FORMAT, _BOUND_FORMAT_WITH_NOTE = "p3:", "p4:"
_BOUND = (_BOUND_FORMAT, _BOUND_FORMAT_WITH_NOTE)
_FORMATS = (_FORMAT, _FORMAT_WITH_NOTE, *_BOUND)
_MAX_OUTSTANDING = 2_000_000
"""More offsets than :func:`encode` ever gets; it keeps a damaged text from filling the memory."""

_NUMBER_BYTES = 9
"""Bytes of the largest number that Kafka has, in 63 bits."""

_RUNS, _STRETCHES = 0, 1


class WaitingRecord(NamedTuple):
    """A record that waits in place: how often it was delivered, and when it is due again (epoch ms)."""

    deliveries: int
    due_ms: int


class DeliveryNote(NamedTuple):
    """Which records may be in a handler; committed before any of them is delivered.

    If a process dies, its note tells the next owner of the partition which records may have killed it.
    """

    author: int
    """The process that wrote the note, as a random number (32 bits, not 0)."""

    end: int = 0
    """Every unfinished record below this offset may be in a handler of the author; 0 = none."""

    suspect_end: int = 0
    """Every unfinished record below this offset may have killed a worker before; 0 = none."""

    isolated: int | None = None
    """The only record in a handler of the author, if it is delivered alone; it also waits in place, with its count."""


class OtherOffsetError(ValueError):
    """The metadata was committed with another offset: a mirror or another tool has moved it."""


class DecodedProgress(NamedTuple):
    """The content of the metadata; the committed offset is not part of it."""

    end: int
    """The offset after the last one tracked."""

    outstanding: set[int]
    """The offsets below ``end`` that are not finished."""

    waiting: dict[int, WaitingRecord]
    note: DeliveryNote | None = None


def encode(
    watermark: int,
    end: int,
    outstanding: Sequence[int],
    waiting: Mapping[int, WaitingRecord],
    note: DeliveryNote | None = None,
    *,
    bound: bool = False,
) -> str:
    """Return the metadata of a commit.

    Args:
        watermark: the committed offset; no other offset is below it.
        end: the offset after the last one tracked.
        outstanding: the unfinished offsets in [watermark, end), ascending.
        waiting: the records that wait in place, by offset.
        note: the delivery note.
        bound: whether to write the format that names the watermark.
    """
    bodies = (_as_runs(watermark, outstanding), _as_stretches(watermark, outstanding))
    flag = _RUNS if len(bodies[0]) <= len(bodies[1]) else _STRETCHES
    packed = bytearray([flag])
    if bound:
        _put(packed, watermark)
    _put(packed, end - watermark)
    _put(packed, len(bodies[flag]))
    packed += bodies[flag]
    if note is not None:
        _put(packed, note.author)
        _put(packed, max(0, note.end - watermark))
        _put(packed, max(0, note.suspect_end - watermark))
        _put(packed, 0 if note.isolated is None else note.isolated - watermark + 1)
    for offset, record in sorted(waiting.items()):
        _put(packed, offset - watermark)
        _put(packed, record.deliveries)
        _put(packed, record.due_ms)
    prefix = _FORMATS[2 * bound + (note is not None)]
    packed += _checksum(prefix, packed)
    return prefix + base64.b64encode(packed).decode()


def encode_apart(watermark: int, finished: Sequence[int], *, bound: bool) -> str:
    """Return the metadata of a commit in whose partition few offsets are finished above the watermark.

    All other offsets up to the last of these count as outstanding, whether they hold a record or not. So the length
    depends on the number of finished offsets alone, and never grows while the watermark moves.

    Args:
        watermark: the committed offset.
        finished: the finished offsets above it, ascending; at least one.
        bound: whether to write the format that names the watermark.
    """
    body = bytearray()
    last = first = watermark
    for offset in finished:
        if offset > first:
            _put(body, first - last)
            _put(body, offset - 1 - first)
            last = offset - 1
        first = offset + 1
    packed = bytearray([_RUNS])
    if bound:
        _put(packed, watermark)
    _put(packed, finished[-1] + 1 - watermark)
    _put(packed, len(body))
    packed += body
    prefix = _FORMATS[2 * bound]
    packed += _checksum(prefix, packed)
    return prefix + base64.b64encode(packed).decode()


def newer_format(metadata: str) -> str | None:
    """Return the name of the format if only a newer version of this project can have written it, else ``None``."""
    _, rest = split_mark(metadata)
    found = re.match(r"(p[1-9][0-9]{0,2}):", rest)
    return None if found is None or rest.startswith((*_FORMATS, MARKED)) else found[1]


def decode(watermark: int, metadata: str) -> DecodedProgress:
    """Decode the metadata of a commit. The mark of its topic is left out; see :func:`split_mark`.

    Metadata that is empty, but for the mark, says that all records below the watermark are finished and no other one.

    Raises:
        OtherOffsetError: the metadata was committed with another offset.
        ValueError: the metadata was not written by this project, or is damaged.
    """
    if len(metadata) > METADATA_LIMIT:  # a record of the control topic may have a megabyte, which would take a minute
        raise ValueError(f"{len(metadata)} characters, and this project writes {METADATA_LIMIT} at most")
    _, metadata = split_mark(metadata)
    if not metadata:
        return DecodedProgress(watermark, set(), {})
    if not metadata.startswith(_FORMATS):
        raise ValueError("unknown format")
    prefix = metadata[: len(_FORMAT)]
    packed = base64.b64decode(metadata[len(_FORMAT) :], validate=True)
    if len(packed) < _MIN_BYTES or _checksum(prefix, packed[:-4]) != packed[-4:]:
        raise ValueError("wrong checksum")
    numbers = _Reader(packed[1:-4])
    if prefix in _BOUND and (own := numbers.number()) != watermark:
        raise OtherOffsetError(f"was committed with offset {own}")
    end = watermark + numbers.number()
    body = _Reader(numbers.take(numbers.number()))
    outstanding = set(_from_stretches(watermark, body) if packed[0] else _from_runs(watermark, body))
    if max(end, max(outstanding, default=end)) > LONG_MAX:
        raise ValueError("names an offset that Kafka does not have")
    note = _read_note(watermark, numbers) if prefix in {_FORMAT_WITH_NOTE, _BOUND_FORMAT_WITH_NOTE} else None
    waiting = {}
    while numbers.rest:
        offset = watermark + numbers.number()
        waiting[offset] = WaitingRecord(numbers.number(), numbers.number())
    return DecodedProgress(end, outstanding, waiting, note)


def _checksum(prefix: str, packed: bytes | bytearray) -> bytes:
    """Return the CRC-32; of a bound format it covers the prefix, so that no damage turns another format into it."""
    return zlib.crc32(packed, zlib.crc32(prefix.encode()) if prefix in _BOUND else 0).to_bytes(4, "big")


def _read_note(watermark: int, numbers: _Reader) -> DeliveryNote:
    author, end, suspect_end, isolated = (numbers.number() for _ in range(4))
    return DeliveryNote(
        author,
        watermark + end if end else 0,
        watermark + suspect_end if suspect_end else 0,
        watermark + isolated - 1 if isolated else None,
    )


_MIN_BYTES = 7
"""A flag, two numbers of one byte each, and the CRC-32."""


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
    left = _MAX_OUTSTANDING
    while body.rest:
        first = last + body.number()
        last = first + body.number()
        left -= last - first + 1
        if left < 0:
            raise ValueError("too many outstanding offsets")
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
                bit = offset - first
                bitmap[bit >> 3] |= 1 << (bit & 7)
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
    """Reads unsigned varints from the front of a byte string."""

    __slots__ = ("rest",)

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def number(self) -> int:
        value = shift = 0
        for index, byte in enumerate(self.rest[:_NUMBER_BYTES]):
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
                self.rest = self.rest[index + 1 :]
                return value
        raise ValueError(f"has a number that is cut off, or has more than {_NUMBER_BYTES} bytes")

    def take(self, length: int) -> bytes:
        if length > len(self.rest):
            raise ValueError("ends within a field")
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken
