"""Progress of a partition: which offsets are finished, and what is committed for them.

A consumer group stores one committed offset per partition. Records that finish out of order and records that wait in
place need more: the committed offset is a low watermark, and the rest is stored in the metadata of the same commit, and
thus in the same transaction. Offsets have holes (transaction markers, compaction), so nothing here assumes that the
next offset is the last one plus one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress_metadata import (
    FIXED_BYTES,
    HOLE_BITS,
    METADATA_LIMIT,
    WAITING_BYTES,
    DeliveryNote,
    OtherOffsetError,
    WaitingRecord,
    decode,
    encode,
    encode_apart,
    newer_format,
)
from kafka_redelivery.topology.wire.topic_mark import marked, split_mark

MAX_APART = 200_000
"""How far above the watermark an offset may be finished apart: a restart keeps all that are outstanding in memory."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is committed for a partition: the offset to resume from, and the metadata of the commit."""

    offset: int
    metadata: str


@dataclass(slots=True)
class Progress:
    """Progress of one partition. Not thread-safe: it belongs to the polling thread.

    An offset is tracked when its record is fetched (:meth:`track`), and completed when its outcome needs no further
    write (:meth:`complete`). :meth:`checkpoint` returns what may be committed: its offset is the watermark, below which
    every tracked offset is finished. After a restart, :meth:`track` returns false for offsets that were finished
    before, so those records are skipped.
    """

    next_offset: int
    """The offset after the last one tracked; fetching continues here."""

    waiting: dict[int, WaitingRecord] = field(default_factory=dict)
    """The records that wait in place, by offset."""

    _unfinished: deque[int] = field(default_factory=deque)
    """Tracked offsets from the watermark on, ascending; finished ones are removed when they reach the front."""

    _finished: set[int] = field(default_factory=set)
    """Finished offsets that are still in ``_unfinished``."""

    _holes: deque[tuple[int, int]] = field(default_factory=deque)
    """Holes longer than :data:`HOLE_BITS`: the offset after each, and the bitmap bits that it saves."""

    _saved_bits: int = 0
    _restored_end: int = 0
    """Every offset below was tracked before the restore; those that are not in ``_restored`` are finished."""

    _restored: set[int] = field(default_factory=set)
    _restored_bits: int = 0
    """Upper bound of the bits that the restored offsets need, in whatever order they finish."""

    author: int | None = None
    """The number of this process, if it writes delivery notes; see :class:`DeliveryNote`."""

    max_waiting: int = 0
    """How many records may come to wait in place; :meth:`can_track` reserves metadata for them."""

    note_end: int = 0
    """:attr:`DeliveryNote.end` of the next checkpoint."""

    suspect_end: int = 0
    """Unfinished records below this offset may have killed a worker; they are delivered one at a time."""

    isolated: int | None = None
    """:attr:`DeliveryNote.isolated` of the next checkpoint."""

    _note_committed: bool = False
    """Whether a note of this process is committed that the fields above do not show, after an aborted transaction."""

    bound: bool = False
    """Whether checkpoints name their offset in the metadata, which versions before feature level 2 cannot read."""

    mark: str = ""
    """The mark of the topic, which each checkpoint names; empty = versions before feature level 3 have to read it."""

    apart: set[int] = field(default_factory=set)
    """Finished offsets above the watermark of a partition whose others finish in order; see :meth:`in_order`.

    Their records need not have been fetched."""

    moved: bool = False
    """Whether the metadata of the restored commit belonged to another offset, and was ignored."""

    fatal_offset: int | None = None
    """The record whose isolated delivery killed its worker; :attr:`waiting` already counts that delivery."""

    @classmethod
    def restore(cls, offset: int, metadata: str | None, author: int | None = None) -> Progress:
        """Restore progress from a commit.

        A process withdraws its delivery note when it gives a partition back. A note of another process therefore means
        that this process has died, and the records that it names are suspects. A note of this process names none.

        Metadata that was committed with another offset is ignored: a mirror or another tool has moved the offset, and
        the records above it are delivered, again or for the first time. The mark of the topic is not compared: see
        :func:`~kafka_redelivery.topology.wire.topic_mark.is_other_topic`.

        Args:
            offset: the committed offset; never a placeholder for "none".
            metadata: the metadata of the commit; empty or ``None`` if a plain consumer committed.
            author: the number of this process; ``None`` if it neither writes nor reads delivery notes.

        Raises:
            ProgressError: the metadata was not written by this project, is damaged, or has a newer format.
        """
        if not metadata:
            return cls(offset, author=author)
        mark, _ = split_mark(metadata)
        try:
            decoded = decode(offset, metadata)
        except OtherOffsetError:
            return cls(offset, author=author, mark=mark, moved=True)
        except ValueError as error:
            newer = newer_format(metadata)
            if newer is not None:
                raise ProgressError(
                    f"the commit at offset {offset} is in the format {newer} of a newer version: start that version "
                    "and stop it gracefully before you start this one (see docs/upgrading.md)"
                ) from None
            raise ProgressError(
                f"the commit at offset {offset} has metadata that is damaged or was not written by this project "
                f"({metadata[:40]!r}: {error}): was the group's offset changed by another tool?"
            ) from None
        progress = cls(
            offset,
            waiting=decoded.waiting,
            author=author,
            mark=mark,
            _restored_end=decoded.end,
            _restored=decoded.outstanding,
            _restored_bits=_max_bits(decoded.outstanding, decoded.end),
        )
        if decoded.note is not None and author is not None:
            progress._read_note(decoded.note)
        return progress

    def in_order(self) -> None:
        """Prepare, right after :meth:`restore`, for a partition whose records finish in order.

        Only those that are finished :meth:`apart <complete_apart>` do not. They are known one by one, so whatever holes
        the log turns out to have, the metadata of a commit does not grow.
        """
        if self._restored_end - self.next_offset > MAX_APART + 1:
            return  # another program has committed it; it is read as the metadata of any partition
        self.apart = set(range(self.next_offset, self._restored_end)) - self._restored
        self._restored, self._restored_end, self._restored_bits = set(), 0, 0

    def complete_apart(self, offsets: Iterable[int]) -> None:
        """Mark offsets as finished before those in front of them; :meth:`space_apart` has space for them."""
        offsets = set(offsets)
        self.apart |= offsets
        self.complete(offset for offset in sorted(offsets) if offset < self.next_offset)

    def skip_apart(self, offset: int) -> bool:
        """Return whether the record of a fetched offset was finished apart. The next fetch continues behind it then."""
        if offset not in self.apart:
            return False
        self.next_offset = offset + 1
        return True

    def space_apart(self, offsets: Sequence[int]) -> int:
        """Return how many of the first of these offsets, ascending, the metadata of a commit has space for."""
        watermark = self.watermark
        known = {offset for offset in self.apart if offset >= watermark}
        near = offsets[: bisect_right(offsets, watermark + MAX_APART)]

        def length(number: int) -> int:
            return len(encode_apart(watermark, sorted(known.union(near[:number])), bound=True)) + FIXED_BYTES

        if not near or length(len(near)) <= METADATA_LIMIT:
            return len(near)
        return bisect_right(range(1, len(near)), METADATA_LIMIT, key=length)

    def start_at(self, log_start: int) -> Checkpoint:
        """Return what to commit after the records below the log start were deleted, right after :meth:`restore`.

        What is finished or waits in place above the log start stays so.
        """
        self.reach_end(log_start)
        return self.checkpoint()

    @property
    def watermark(self) -> int:
        """The lowest offset that is not finished."""
        return self._unfinished[0] if self._unfinished else self.next_offset

    @property
    def outstanding(self) -> int:
        """How many tracked offsets are not finished."""
        return len(self._unfinished) - len(self._finished)

    def track(self, offset: int) -> bool:
        """Track a fetched offset; return false if it is finished already and its record must not be delivered.

        Raises:
            ProgressError: the offset is not above the last one tracked; the consumer was rewound by someone else.
        """
        hole = offset - self.next_offset
        if hole < 0:
            raise ProgressError(f"offset {offset} was fetched again after {self.next_offset - 1}")
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

    def track_range(self, first: int, count: int) -> bool:
        """Track ``count`` consecutive offsets from ``first`` on, none of them finished before.

        Returns:
            False, and tracks nothing, if ``first`` is not :attr:`next_offset` or an offset was tracked before the
            restore. Track them one by one then.
        """
        if first != self.next_offset or first < self._restored_end:
            return False
        self.next_offset = first + count
        self._unfinished.extend(range(first, first + count))
        return True

    def reach_end(self, end: int) -> bool:
        """Pass the offsets below ``end`` that hold no record for this group: markers, aborted and compacted records.

        Args:
            end: the offset at which a fetch has reached the end; every record below it was tracked, or skipped by
                :meth:`track`.

        Returns:
            Whether the watermark has moved.
        """
        hole = end - self.next_offset
        if hole <= 0:
            return False
        self.next_offset = end
        if hole > HOLE_BITS:
            self._holes.append((end, hole - HOLE_BITS))
            self._saved_bits += hole - HOLE_BITS
        if self._unfinished:
            return False
        self._discard_finished()
        return True

    def complete(self, offsets: Iterable[int]) -> None:
        """Mark tracked offsets as finished; those that are finished already stay so."""
        finished, unfinished, rest = self._finished, self._unfinished, iter(offsets)
        if not finished:  # mostly, records finish in order
            for offset in rest:
                if not unfinished or unfinished[0] != offset:
                    finished.add(offset)
                    break
                unfinished.popleft()
        finished.update(rest)
        while unfinished and unfinished[0] in finished:
            finished.discard(unfinished.popleft())
        if not unfinished:
            finished.clear()
        if self._holes or self.waiting:
            self._discard_finished()

    def reopen(self, offsets: Iterable[int], waiting: Mapping[int, WaitingRecord], *, among_finished: bool) -> None:
        """Mark finished offsets as unfinished again, because the write that would have committed them was aborted.

        Args:
            offsets: offsets that :meth:`complete` has finished and that no commit contains.
            waiting: those of them that waited in place before.
            among_finished: whether a commit contains finished offsets between them. These stay finished.
        """
        if among_finished:
            self._restored_end = max(self._restored_end, self.watermark)
        self._finished.difference_update(offsets)
        self._unfinished = deque(sorted({*self._unfinished, *offsets}))
        self.waiting |= waiting

    def wait_in_place(self, offset: int, deliveries: int, due_ms: int) -> None:
        """Note that a tracked record waits in place, after ``deliveries``, and is due again at ``due_ms``."""
        self.waiting[offset] = WaitingRecord(deliveries, due_ms)
        if self.isolated == offset:
            self.isolated = None

    def shorten_wait(self, offset: int, by_ms: int) -> None:
        """Shorten the wait of a record: the clock by which its due time was set was ahead by ``by_ms``."""
        deliveries, due_ms = self.waiting[offset]
        self.waiting[offset] = WaitingRecord(deliveries, max(0, due_ms - by_ms))

    def isolate(self, offset: int, deliveries: int) -> None:
        """Note that a tracked record, delivered ``deliveries`` times so far, is the only one about to be delivered."""
        before = self.waiting.get(offset)
        self.waiting[offset] = WaitingRecord(deliveries, 0 if before is None else before.due_ms)
        self.isolated = offset

    def withdraw_note(self) -> bool:
        """Withdraw the delivery note: no record of this partition is in a handler of this process any more.

        Returns:
            Whether a checkpoint must be committed, because the last one may contain the note.
        """
        noted = self._note_committed or self.note_end > self.watermark or self.isolated is not None
        self.note_end, self.isolated, self._note_committed = 0, None, False
        return noted

    def checkpoint(self) -> Checkpoint:
        """Return what to commit for the current progress.

        Raises:
            ProgressError: the metadata would exceed :data:`METADATA_LIMIT`; :meth:`can_track` prevents this.
        """
        watermark = self.watermark
        if self.apart:
            self.apart = {offset for offset in self.apart if offset >= watermark}
            if self.apart:
                return Checkpoint(
                    watermark, marked(self.mark, encode_apart(watermark, sorted(self.apart), bound=self.bound))
                )
        waiting = {offset: record for offset, record in self.waiting.items() if offset >= watermark}
        note = None if self.author is None else self._note(watermark, self.author)
        if not self._finished and self._restored_end <= watermark:
            if not waiting and note is None:
                return Checkpoint(watermark, marked(self.mark, ""))
            # No offset above the watermark is finished, so no outstanding offsets need to be listed.
            metadata = encode(watermark, watermark, (), waiting, note, bound=self.bound)
        else:
            outstanding = [offset for offset in self._unfinished if offset not in self._finished]
            # Restored offsets that were passed without being fetched were compacted or deleted, and are dropped.
            outstanding += sorted(offset for offset in self._restored if offset >= self.next_offset)
            end = max(self.next_offset, self._restored_end)
            metadata = encode(watermark, end, outstanding, waiting, note, bound=self.bound)
        metadata = marked(self.mark, metadata)
        if len(metadata) > METADATA_LIMIT:
            raise ProgressError(f"progress above offset {watermark} needs {len(metadata)} bytes of commit metadata")
        return Checkpoint(watermark, metadata)

    def can_track(self, more: int = 0) -> bool:
        """Whether the commit metadata has room if ``more`` offsets are tracked and finish out of order.

        While it has none, the partition takes no new records, until its watermark moves. The estimate is an upper
        bound: it counts the bits of the worst encoding and encodes nothing.
        """
        end = self.next_offset + more
        bits = max(end, self._restored_end) - self.watermark - self._saved_bits
        if self._restored_end > self.next_offset:
            # Offsets fetched again up to there are in the metadata already. If they were counted twice, a partition
            # with long metadata would never be read again.
            bits = min(bits, self._restored_bits + (more if end > self._restored_end else 0))
        return bits // 6 + max(len(self.waiting), self.max_waiting) * WAITING_BYTES + FIXED_BYTES <= METADATA_LIMIT

    def can_track_offset(self, offset: int) -> bool:
        """The same for one offset, which may come after a hole of any length."""
        return self.can_track(min(offset - self.next_offset, HOLE_BITS) + 1)

    def _read_note(self, note: DeliveryNote) -> None:
        self.suspect_end = note.suspect_end
        isolated = note.isolated
        if note.author == self.author:
            self._note_committed = note.end > 0 or isolated is not None
            return
        self.suspect_end = max(self.suspect_end, note.end)
        if isolated is not None and isolated in self.waiting:
            self.suspect_end = max(self.suspect_end, isolated + 1)
            self.waiting[isolated] = WaitingRecord(self.waiting[isolated].deliveries + 1, 0)
            self.fatal_offset = isolated

    def _note(self, watermark: int, author: int) -> DeliveryNote | None:
        if self.note_end <= watermark and self.suspect_end <= watermark and self.isolated is None:
            return None
        return DeliveryNote(author, self.note_end, self.suspect_end, self.isolated)

    def _discard_finished(self) -> None:
        watermark = self.watermark
        while self._holes and self._holes[0][0] <= watermark:
            self._saved_bits -= self._holes.popleft()[1]
        for offset in [offset for offset in self.waiting if offset < watermark or offset in self._finished]:
            del self.waiting[offset]
        if self.isolated is not None and self.isolated not in self.waiting:
            self.isolated = None


def _max_bits(outstanding: Iterable[int], end: int) -> int:
    """Bits of the bitmap: the distance between neighbouring offsets, but no more than a new stretch costs."""
    offsets = [*sorted(outstanding), end]
    return sum(min(after - before, HOLE_BITS) for before, after in pairwise(offsets))
