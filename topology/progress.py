"""What of a partition is done: the one module that owns it.

A consumer group stores one offset for each partition. What finishes out of order, and what waits in
place, needs more: the committed offset is a low watermark, and the rest travels in the metadata of
that same commit, hence in the same transaction. Offsets have holes (transaction markers,
compaction), so nothing here counts by adding one: "next" is what was seen next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from topology.errors import ProgressError
from topology.progress_metadata import (
    FIXED_BYTES,
    HOLE_BITS,
    METADATA_LIMIT,
    WAITING_BYTES,
    HandedOut,
    InPlace,
    decode,
    encode,
    newer_format,
)

__all__ = ["METADATA_LIMIT", "Checkpoint", "InPlace", "Progress"]


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

    _holes: deque[tuple[int, int]] = field(default_factory=deque)
    """Holes longer than a stretch of the bitmap costs: the offset behind each, and the bits it saves."""

    _saved_bits: int = 0
    _restored_end: int = 0
    """Everything below was seen before the restore; what is not in ``_restored`` was finished."""

    _restored: set[int] = field(default_factory=set)
    _restored_bits: int = 0
    """Most bits that what was restored can need, whichever of it is finished first."""

    author: int | None = None
    """The number of this process, if it notes what it hands out before it does; see :class:`HandedOut`."""

    most_waiting: int = 0
    """So many records may come to wait in place; :meth:`fits` keeps room for them."""

    handed_end: int = 0
    """What :attr:`HandedOut.end` says in the next checkpoint."""

    suspect_end: int = 0
    """Unfinished records below this one may have killed a worker: they are handed out one by one."""

    alone: int | None = None
    """What :attr:`HandedOut.alone` says in the next checkpoint."""

    _note_stands: bool = False
    """Whether a note of this process is committed that the books do not know of: a write was undone."""

    died: int | None = None
    """The record that was alone in a handler when its worker died; its count in :attr:`waiting` says so already."""

    @classmethod
    def restore(cls, offset: int, metadata: str | None, author: int | None = None) -> Progress:
        """Progress as committed.

        What another process had noted as handed out is suspect now: that one has died, for whoever gives a partition
        back takes its note back. What this process noted itself is not.

        Args:
            offset: the committed offset (a valid one, not a broker's "none").
            metadata: what was committed with it; empty or ``None`` for a commit of a plain consumer.
            author: the number of this process, ``None`` if it notes nothing and suspects nobody.

        Raises:
            ProgressError: the metadata is not ours or damaged.
        """
        if not metadata:
            return cls(offset, author=author)
        try:
            noted = decode(offset, metadata)
        except ValueError as error:
            newer = newer_format(metadata)
            if newer is not None:
                msg = (
                    f"the commit at offset {offset} is in the format {newer} of a newer version: start that version, "
                    "and stop it in order before this one is started (see docs/upgrading.md)"
                )
                raise ProgressError(msg) from None
            msg = (
                f"the commit at offset {offset} carries metadata that is not ours or damaged "
                f"({metadata[:40]!r}: {error}): was the group's offset changed by another tool?"
            )
            raise ProgressError(msg) from None
        progress = cls(
            offset,
            waiting=noted.waiting,
            author=author,
            _restored_end=noted.end,
            _restored=noted.outstanding,
            _restored_bits=_most_bits(noted.outstanding, noted.end),
        )
        if noted.handed_out is not None and author is not None:
            progress._suspect(noted.handed_out)
        return progress

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
        hole = offset - self.next_offset
        if hole < 0:
            msg = f"offset {offset} was fetched again after {self.next_offset - 1}"
            raise ProgressError(msg)
        self.next_offset = offset + 1
        if offset < self._restored_end:
            if offset not in self._restored:
                return False
            self._restored.discard(offset)
        if hole > HOLE_BITS:
            self._holes.append((offset, hole - HOLE_BITS))
            self._saved_bits += hole - HOLE_BITS
        self._unfinished.append(offset)
        return True

    def see_run(self, first: int, count: int) -> bool:
        """Note ``count`` offsets from ``first`` on at once, none of them finished before.

        False: nothing is noted, because they do not follow what was seen, or were seen before a restore.
        """
        if first != self.next_offset or first < self._restored_end:
            return False
        self.next_offset = first + count
        self._unfinished.extend(range(first, first + count))
        return True

    def finish(self, offsets: Iterable[int]) -> None:
        """Note that nothing more is owed for these seen offsets; what is finished already stays so."""
        finished = self._finished
        finished.update(offsets)
        unfinished = self._unfinished
        while unfinished and unfinished[0] in finished:
            finished.discard(unfinished.popleft())
        if not unfinished:
            finished.clear()
        if self._holes or self.waiting:
            self._tidy()

    def wait(self, offset: int, deliveries: int, due_ms: int) -> None:
        """Note that a seen offset waits in place for its next delivery."""
        self.waiting[offset] = InPlace(deliveries, due_ms)
        if self.alone == offset:
            self.alone = None

    def hand_out_alone(self, offset: int, deliveries: int) -> None:
        """Note that a seen offset is handed out while nothing else is, ``deliveries`` made before."""
        before = self.waiting.get(offset)
        self.waiting[offset] = InPlace(deliveries, 0 if before is None else before.due_ms)
        self.alone = offset

    def take_note_back(self) -> bool:
        """Nothing is in a handler any more that this process answers for. True: a checkpoint has to say so."""
        noted = self._note_stands or self.handed_end > self.watermark or self.alone is not None
        self.handed_end, self.alone, self._note_stands = 0, None, False
        return noted

    def checkpoint(self) -> Checkpoint:
        """The commit that says exactly what is done.

        Raises:
            ProgressError: the metadata would exceed :data:`METADATA_LIMIT`; see :meth:`fits`.
        """
        watermark = self.watermark
        waiting = {offset: record for offset, record in self.waiting.items() if offset >= watermark}
        handed_out = self._handed_out(watermark)
        if not self._finished and self._restored_end <= watermark:
            if not waiting and handed_out is None:
                return Checkpoint(watermark, "")
            # Nothing is finished above the watermark, so nothing has to be told from it.
            metadata = encode(watermark, watermark, (), waiting, handed_out)
        else:
            outstanding = [offset for offset in self._unfinished if offset not in self._finished]
            # What was restored and the reader has passed without seeing was compacted or deleted: it is forgotten.
            outstanding += sorted(offset for offset in self._restored if offset >= self.next_offset)
            end = max(self.next_offset, self._restored_end)
            metadata = encode(watermark, end, outstanding, waiting, handed_out)
        if len(metadata) > METADATA_LIMIT:
            msg = f"progress above offset {watermark} needs {len(metadata)} bytes of commit metadata"
            raise ProgressError(msg)
        return Checkpoint(watermark, metadata)

    def fits(self, more: int = 0) -> bool:
        """Whether the commit metadata has room even if ``more`` offsets are seen and finish out of order.

        A partition for which it is false takes no new records until its watermark moves.
        Conservative: counted in bits of the worst encoding, never by encoding.
        """
        end = self.next_offset + more
        bits = max(end, self._restored_end) - self.watermark - self._saved_bits
        if self._restored_end > self.next_offset:
            # What is read again up to there is in the text already. Were it counted twice, a partition whose text
            # is long would never be read on.
            bits = min(bits, self._restored_bits + (more if end > self._restored_end else 0))
        return bits // 6 + max(len(self.waiting), self.most_waiting) * WAITING_BYTES + FIXED_BYTES <= METADATA_LIMIT

    def fits_next(self, offset: int) -> bool:
        """The same for one given offset, which may lie behind a hole that nobody could foresee."""
        return self.fits(min(offset - self.next_offset, HOLE_BITS) + 1)

    def _suspect(self, handed_out: HandedOut) -> None:
        self.suspect_end = handed_out.suspect_end
        alone = handed_out.alone
        if handed_out.author == self.author:
            self._note_stands = handed_out.end > 0 or alone is not None
            return
        self.suspect_end = max(self.suspect_end, handed_out.end)
        if alone is not None and alone in self.waiting:
            self.suspect_end = max(self.suspect_end, alone + 1)
            self.waiting[alone] = InPlace(self.waiting[alone].deliveries + 1, 0)
            self.died = alone

    def _handed_out(self, watermark: int) -> HandedOut | None:
        if self.author is None:
            return None
        if self.handed_end <= watermark and self.suspect_end <= watermark and self.alone is None:
            return None
        return HandedOut(self.author, self.handed_end, self.suspect_end, self.alone)

    def _tidy(self) -> None:
        watermark = self.watermark
        while self._holes and self._holes[0][0] <= watermark:
            self._saved_bits -= self._holes.popleft()[1]
        for offset in [offset for offset in self.waiting if offset < watermark or offset in self._finished]:
            del self.waiting[offset]
        if self.alone is not None and self.alone not in self.waiting:
            self.alone = None


def _most_bits(outstanding: Iterable[int], end: int) -> int:
    """As stretches of a bitmap: of two offsets further apart than a new stretch costs, so much is counted."""
    offsets = [*sorted(outstanding), end]
    return sum(min(after - before, HOLE_BITS) for before, after in pairwise(offsets))
