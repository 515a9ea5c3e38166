"""What of a partition is done: the one module that owns it.

A consumer group stores one offset for each partition. What finishes out of order, and what waits in
place, needs more: the committed offset is a low watermark, and the rest travels in the metadata of
that same commit, hence in the same transaction. Offsets have holes (transaction markers,
compaction), so nothing here counts by adding one: "next" is what was seen next.
"""

from __future__ import annotations

import base64
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from topology.errors import ProgressError

METADATA_LIMIT = 4096
"""Most bytes of commit metadata that a broker accepts by default (``offset.metadata.max.bytes``)."""

_FORMAT = "p1:"


@dataclass(frozen=True, slots=True)
class InPlace:
    """A record that waits where it is: deliveries made, and when it is due again (epoch ms)."""

    deliveries: int
    due_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is committed for a partition: the offset to start at, and the metadata with it."""

    offset: int
    metadata: str


@dataclass(slots=True)
class Progress:
    """Progress of one partition. Not thread-safe: owned by the polling thread.

    The life of an offset: :meth:`see` when it is fetched (false: it was finished before, skip it),
    :meth:`finish` when nothing more is owed for it. :meth:`checkpoint` tells what may be committed.
    """

    next_offset: int
    """One past the last offset seen; the partition is read on from here."""

    waiting: dict[int, InPlace] = field(default_factory=dict)
    _unfinished: deque[int] = field(default_factory=deque)
    """Offsets seen, ascending, from the watermark on; finished ones go when they reach the front."""

    _finished: set[int] = field(default_factory=set)
    """Finished offsets that are still in ``_unfinished``."""

    _restored: set[int] = field(default_factory=set)
    """Finished offsets above the watermark that have not been seen again since the restore."""

    @classmethod
    def restore(cls, offset: int, metadata: str | None) -> Progress:
        """Progress as committed.

        Args:
            offset: the committed offset (a valid one, not a broker's "none").
            metadata: what was committed with it; empty or ``None`` for a commit of a plain consumer.

        Raises:
            ProgressError: the metadata is not ours or damaged.
        """
        if not metadata:
            return cls(offset)
        finished, waiting = _decode(offset, metadata)
        return cls(offset, waiting=waiting, _restored=finished)

    @property
    def watermark(self) -> int:
        """The lowest offset that is not finished."""
        return self._unfinished[0] if self._unfinished else self.next_offset

    @property
    def outstanding(self) -> int:
        """How many seen offsets are not finished."""
        return len(self._unfinished) - len(self._finished)

    def see(self, offset: int) -> bool:
        """Note a fetched offset. False: it is finished already and must not be handed out.

        Raises:
            ProgressError: the offset is below one already seen; the reader was rewound behind our back.
        """
        if offset < self.next_offset:
            msg = f"offset {offset} was fetched again after {self.next_offset - 1}"
            raise ProgressError(msg)
        self.next_offset = offset + 1
        if self._restored and offset in self._restored:
            self._restored.discard(offset)
            if self._unfinished:
                self._unfinished.append(offset)
                self._finished.add(offset)
            return False
        self._unfinished.append(offset)
        return True

    def finish(self, offsets: Iterable[int]) -> None:
        """Note that nothing more is owed for these seen offsets."""
        finished = self._finished
        finished.update(offsets)
        unfinished = self._unfinished
        while unfinished and unfinished[0] in finished:
            finished.discard(unfinished.popleft())
        if self.waiting:
            for offset in [offset for offset in self.waiting if offset in finished or offset < self.watermark]:
                del self.waiting[offset]

    def wait(self, offset: int, deliveries: int, due_ms: int) -> None:
        """Note that a seen offset waits in place for its next delivery."""
        self.waiting[offset] = InPlace(deliveries, due_ms)

    def checkpoint(self) -> Checkpoint:
        """The commit that says exactly what is done.

        Raises:
            ProgressError: the metadata would exceed :data:`METADATA_LIMIT`; see :meth:`fits`.
        """
        watermark = self.watermark
        # What was restored and the reader has passed without seeing was compacted or deleted: forget it.
        above = self._finished | {offset for offset in self._restored if offset >= self.next_offset}
        waiting = {offset: record for offset, record in self.waiting.items() if offset >= watermark}
        if not above and not waiting:
            return Checkpoint(watermark, "")
        metadata = _encode(watermark, above, waiting)
        if len(metadata) > METADATA_LIMIT:
            msg = f"progress above offset {watermark} needs {len(metadata)} bytes of commit metadata"
            raise ProgressError(msg)
        return Checkpoint(watermark, metadata)

    def fits(self, more: int = 0) -> bool:
        """Whether the commit metadata has room even if ``more`` offsets are seen and finished out of order.

        A partition for which it is false takes no new records until its watermark moves.
        Conservative: counted in bits of the worst encoding, never by encoding.
        """
        span = self.next_offset - self.watermark + more
        restored_end = max(self._restored, default=0) - self.watermark
        bits = max(span, restored_end, 0)
        return bits // 6 + len(self.waiting) * _WAITING_BYTES + 64 <= METADATA_LIMIT


_WAITING_BYTES = 28
"""Upper bound of one waiting record in the metadata: three varints (9 + 3 + 9 bytes), in base64."""


def _encode(watermark: int, finished: set[int], waiting: Mapping[int, InPlace]) -> str:
    """``p1:`` + base64(flag byte + runs of finished offsets or bitmap + waiting records)."""
    ordered = sorted(finished)
    runs = bytearray()
    end = watermark
    for first, last in _runs(ordered):
        _put(runs, first - end)
        _put(runs, last - first)
        end = last
    span = (ordered[-1] - watermark) // 8 + 1 if ordered else 0
    if len(runs) <= span:
        flag, body = 0, bytes(runs)
    else:
        bitmap = bytearray(span)
        for offset in ordered:
            place = offset - watermark
            bitmap[place >> 3] |= 1 << (place & 7)
        flag, body = 1, bytes(bitmap)
    packed = bytearray([flag])
    _put(packed, len(body))
    packed += body
    for offset, record in sorted(waiting.items()):
        _put(packed, offset - watermark)
        _put(packed, record.deliveries)
        _put(packed, record.due_ms)
    packed += (zlib.crc32(packed) & 0xFFFF).to_bytes(2, "big")
    return _FORMAT + base64.b64encode(packed).decode()


def _decode(watermark: int, metadata: str) -> tuple[set[int], dict[int, InPlace]]:
    try:
        if not metadata.startswith(_FORMAT):
            raise ValueError  # noqa: TRY301 - every way of being unreadable ends in the one error below
        packed = base64.b64decode(metadata[len(_FORMAT) :], validate=True)
        if (zlib.crc32(packed[:-2]) & 0xFFFF).to_bytes(2, "big") != packed[-2:]:
            raise ValueError  # noqa: TRY301
        numbers = _Reader(packed[1:-2])
        body = numbers.take(numbers.number())
        finished = _from_bitmap(watermark, body) if packed[0] else _from_runs(watermark, body)
        waiting = {}
        while numbers.rest:
            offset = watermark + numbers.number()
            waiting[offset] = InPlace(numbers.number(), numbers.number())
    except (ValueError, IndexError):
        msg = (
            f"the commit at offset {watermark} carries metadata that is not ours or damaged "
            f"({metadata[:40]!r}): was the group's offset changed by another tool?"
        )
        raise ProgressError(msg) from None
    return finished, waiting


def _from_runs(watermark: int, body: bytes) -> set[int]:
    numbers = _Reader(body)
    finished: set[int] = set()
    end = watermark
    while numbers.rest:
        first = end + numbers.number()
        end = first + numbers.number()
        finished.update(range(first, end + 1))
    return finished


def _from_bitmap(watermark: int, body: bytes) -> set[int]:
    return {watermark + (index << 3) + bit for index, byte in enumerate(body) for bit in range(8) if byte >> bit & 1}


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    """Consecutive runs as (first, last)."""
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            yield ordered[start], ordered[index - 1]
            start = index


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
        raise IndexError

    def take(self, length: int) -> bytes:
        if length > len(self.rest):
            raise IndexError
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken
