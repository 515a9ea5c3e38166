"""One partition of a dead-letter topic, as far as a sweeper has read it. Does no input or output."""

from __future__ import annotations

from enum import StrEnum

from topology.expiry import Fate, fate_of, has_expired
from transport.message_headers import UnreadableHeadersError, headers_of
from transport.protocols import Message

_LOOK_MS = 600_000
"""After so long a head is read again in any case: somebody may have removed it by hand."""

_OTHERS_MS = 10_000
"""The same for one that another group has yet to remove."""

_AGAIN_MS = 5_000
"""After so long something that was refused is tried again."""


class Rest(StrEnum):
    """Why a partition is not read on."""

    NOT_YET = "not_yet"
    """Its head expires later."""

    NEVER = "never"
    """Its head never expires, or nobody can tell."""

    OTHERS = "others"
    """Its head has expired, but is another group's to remove."""

    REFUSED = "refused"
    """The broker refused to move or to remove something."""


class Head:
    """Reads forward as long as records have expired, and remembers how far.

    All offsets below :attr:`clear_to` may be removed; those below :attr:`moved_to` have been moved before.
    """

    def __init__(self, group: str, start: int, moved_to: int) -> None:
        """Begin at the first record that is there.

        Args:
            group: the consumer group whose dead letters may be removed.
            start: the partition's first offset.
            moved_to: the offset that is committed; what lies before it has no need to be moved again.
        """
        self._group = group
        self.start = start
        self.next = start
        self.clear_to = start
        self.moved_to = max(start, moved_to)
        self.expired = 0
        """How many records lie below :attr:`clear_to`."""

        self.rest: Rest | None = None
        self.wake_ms = 0
        """While it rests: when it is to be read on."""

        self.expires_ms = 0
        """While it rests for :attr:`Rest.NOT_YET`: when its head expires, which may be long after the next look."""

        self.expires_ms = 0
        """While it rests: when its head expires, or has expired (epoch ms); 0 = never."""

        self.problem = ""
        """Why the broker refused something, the last time that it did."""

        self._newest_ms = 0
        """The latest append time of what was taken, as :func:`topology.expiry.fate_of` wants it."""

        self._newest_removed_ms = 0
        self._refused: int | None = None
        """The offset of a record whose copy was refused: it stays for now."""

    @property
    def removable(self) -> bool:
        """Whether there is anything to remove."""
        return self.expired > 0

    def take(self, message: Message, now_ms: int) -> Fate | None:
        """Look at the next record.

        Returns:
            its fate if it has expired and is ours, else ``None``; the partition then rests, unless the record was
            seen before.
        """
        offset = message.offset()
        if self.rest is not None or offset < self.next:
            return None
        appended_ms = message.timestamp()[1]
        try:
            fate = fate_of(headers_of(message), self._group, appended_ms, self._newest_ms)
        except UnreadableHeadersError:
            fate = Fate(0, ours=False, source="")
        self.expires_ms = fate.expires_ms
        if offset == self._refused:
            self._pause(Rest.REFUSED, now_ms + _AGAIN_MS)
        elif not fate.expires_ms:
            self._pause(Rest.NEVER, now_ms + _LOOK_MS)
        elif not has_expired(fate.expires_ms, now_ms):
            self._pause(Rest.NOT_YET, min(fate.expires_ms, now_ms + _LOOK_MS))
            self.expires_ms = fate.expires_ms
        elif not fate.ours:
            self._pause(Rest.OTHERS, now_ms + _OTHERS_MS)
        else:
            if self._newest_ms < appended_ms <= now_ms:
                self._newest_ms = appended_ms
            self.next = self.clear_to = offset + 1
            self.expired += 1
            return fate
        self.clear_to = max(self.clear_to, offset) if self.expired else self.clear_to
        self.next = offset
        return None

    def at_end(self, offset: int) -> None:
        """The end of the partition, as far as committed records go, is at ``offset``."""
        if self.rest is None and self.expired and offset >= self.next:
            self.next = self.clear_to = offset  # markers of transactions lie before it

    def moved(self) -> None:
        """All that was taken has been moved, and that is committed."""
        self.moved_to = max(self.moved_to, self.clear_to)

    def removed(self) -> None:
        """All below :attr:`clear_to` is gone."""
        self.start, self.expired = self.clear_to, 0
        self._newest_removed_ms = self._newest_ms

    def refuse(self, offset: int, problem: str) -> None:
        """The copy of this record was refused; until the next wake nothing is done about it."""
        self._refused = offset
        self.problem = problem

    def give_up(self, now_ms: int, problem: str) -> None:
        """The broker refuses to remove: rest, and begin anew after a while."""
        self.problem = problem
        self.rewind(self.start)
        self._pause(Rest.REFUSED, now_ms + _AGAIN_MS)

    def wake(self, start: int) -> None:
        """Read on after a rest, from what is there; ``start`` is the partition's first offset now."""
        self.rest = None
        self._refused = None
        self.rewind(start)

    def rewind(self, start: int) -> None:
        """Forget what was read and not removed: it is read again from ``start``, the partition's first offset now."""
        self.start = self.next = self.clear_to = start
        self._newest_ms = self._newest_removed_ms  # what comes again is not behind itself
        self.moved_to = max(self.moved_to, start)
        self.expired = 0

    def _pause(self, why: Rest, wake_ms: int) -> None:
        self.rest, self.wake_ms = why, wake_ms
