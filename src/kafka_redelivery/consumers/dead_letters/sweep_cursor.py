"""The position of a sweep in one partition of a dead-letter topic. Does no input or output."""

from __future__ import annotations

from enum import StrEnum

from kafka_redelivery.topology.wire.headers import Fate, fate_of, has_expired
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message

_MAX_PAUSE_MS = 600_000
"""The longest pause: another program may have removed the record meanwhile."""

_OTHER_GROUP_PAUSE_MS = 10_000
"""Pause at a record that another group has yet to remove."""

_RETRY_MS = 5_000
"""Pause after Kafka refused to move or to remove something."""

_UNREAD_MS = 60_000
"""Pause of a partition that cannot be read. Its letters stay a little longer, which harms nothing."""


class PauseReason(StrEnum):
    """Why a sweep stopped at a record."""

    NOT_YET = "not_yet"
    """The record expires later."""

    NEVER = "never"
    """The record never expires, or its headers cannot be read."""

    OTHERS = "others"
    """The record has expired, but its group removes it."""

    REFUSED = "refused"
    """Kafka refused to move or to remove something, or the partition cannot be read."""


class SweepCursor:
    """Advances as long as records have expired, then pauses.

    Records below :attr:`delete_to` have expired and may be removed. Records below :attr:`moved_to` have been moved to
    their expiry topic by an earlier transaction.
    """

    def __init__(self, group: str, start: int, moved_to: int, end: int) -> None:
        """Start at the first record of the partition.

        Args:
            group: the consumer group whose dead letters may be removed.
            start: the log start offset of the partition.
            moved_to: the committed offset; records below it are not moved again.
            end: the end offset of the partition, to measure the progress.
        """
        self._group = group
        self._first, self._end = start, end
        self.start = start
        self.next_offset = start
        self.delete_to = start
        self.moved_to = max(start, moved_to)
        self.expired = 0
        """Number of records below :attr:`delete_to`."""

        self.to_move = 0
        """How many of them go to an expiry topic and had not been moved when they were read."""

        self.pause_reason: PauseReason | None = None
        self.resume_ms = 0
        """While paused: when to go on (epoch ms)."""

        self.expires_ms = 0
        """Expiration of the record that was looked at last (epoch ms), 0 = never.

        While paused at a record it may have passed, or be long after :attr:`resume_ms`.
        """

        self.problem = ""
        """Kafka's reason for the latest refusal."""

        self._newest_ms = 0
        """The latest append time of the records that have expired, for :func:`fate_of`."""

        self._newest_removed_ms = 0
        self._refused_offset: int | None = None
        """Offset of a record that could not be moved; it stays until the sweep resumes."""

        self.alone: int | None = None
        """Offset of the record that was refused and is tried again. No record behind it may be in the same write:
        without transactions it would be written with each attempt."""

    @property
    def size(self) -> int:
        """How many offsets the partition had at the start."""
        return self._end - self._first

    @property
    def swept(self) -> int:
        """How many of them are behind the cursor; all of them while it is paused."""
        return self.size if self.pause_reason is not None else min(self.next_offset, self._end) - self._first

    def advance(self, message: Message, now_ms: int) -> Fate | None:
        """Look at the next record.

        Returns:
            the fate of a record that has expired and belongs to the group. ``None`` for any other record, at which
            the cursor pauses, and for a record that was seen before.
        """
        offset = message.offset()
        if self.pause_reason is not None or offset < self.next_offset:
            return None
        appended_ms = message.timestamp()[1]
        try:
            fate = fate_of(headers_of(message), self._group, appended_ms, self._newest_ms)
        except UnreadableHeadersError:
            fate = Fate(0, own_group=False, source="")
        self.expires_ms = fate.expires_ms
        if offset == self._refused_offset:
            self._pause(PauseReason.REFUSED, now_ms + _RETRY_MS)
        elif not fate.expires_ms:
            self._pause(PauseReason.NEVER, now_ms + _MAX_PAUSE_MS)
        elif not has_expired(fate.expires_ms, now_ms):
            self._pause(PauseReason.NOT_YET, min(fate.expires_ms, now_ms + _MAX_PAUSE_MS))
        elif not fate.own_group:
            self._pause(PauseReason.OTHERS, now_ms + _OTHER_GROUP_PAUSE_MS)
        else:
            if self._newest_ms < appended_ms <= now_ms:
                self._newest_ms = appended_ms
            self.next_offset = self.delete_to = offset + 1
            self.expired += 1
            return fate
        self.delete_to = max(self.delete_to, offset) if self.expired else self.delete_to
        self.next_offset = offset
        return None

    def reach_end(self, offset: int) -> None:
        """Advance to ``offset``, the end of the partition for a reader of committed records."""
        if self.pause_reason is None and self.expired and offset >= self.next_offset:
            self.next_offset = self.delete_to = offset  # only transaction markers lie between

    def mark_moved(self) -> None:
        """All records below :attr:`delete_to` have been moved, and the offset is committed."""
        self.moved_to = max(self.moved_to, self.delete_to)
        self.alone = None

    def mark_removed(self) -> None:
        """All records below :attr:`delete_to` have been removed."""
        self.start, self.expired, self.to_move = self.delete_to, 0, 0
        self._newest_removed_ms = self._newest_ms

    def refuse_move(self, offset: int, problem: str) -> None:
        """Kafka refused to move the record at ``offset``: it stays until the sweep resumes."""
        self._refused_offset = offset
        self.problem = problem

    def refuse_removal(self, now_ms: int, problem: str) -> None:
        """Kafka refused to remove records: pause, then start again."""
        self.problem = problem
        self.rewind(self.start)
        self._pause(PauseReason.REFUSED, now_ms + _RETRY_MS)

    def refuse_read(self, now_ms: int, problem: str) -> None:
        """The partition cannot be read at present: pause where the sweep is."""
        self.problem = problem
        self._pause(PauseReason.REFUSED, now_ms + _UNREAD_MS)

    def resume(self, start: int) -> None:
        """End the pause and rewind to ``start``, the current log start offset."""
        self.pause_reason = None
        if self._refused_offset is not None:
            self.alone, self._refused_offset = self._refused_offset, None
        self.rewind(start)

    def rewind(self, start: int) -> None:
        """Go back to ``start``, the current log start offset. Records that are not removed are read again."""
        self.start = self.next_offset = self.delete_to = start
        self._newest_ms = self._newest_removed_ms  # a record that is read again does not precede itself
        self.moved_to = max(self.moved_to, start)
        self.expired = self.to_move = 0

    def _pause(self, reason: PauseReason, resume_ms: int) -> None:
        self.pause_reason, self.resume_ms = reason, resume_ms
