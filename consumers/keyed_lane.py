"""The same as :mod:`consumers.lane` by key: records of different keys may be handled beside each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import methodcaller

from consumers.lane import Lane
from topology.progress import InPlace
from transport.protocols import Message

MOST_IN_PLACE = 48
"""So many records of a partition may wait in place; then nothing fresh of it is begun: metadata must have room."""

_KEYS = methodcaller("key")


@dataclass(slots=True, eq=False)
class KeyedLane(Lane):
    """The same by key: a key is in one unit at a time, and its records are taken in the order of their offsets.

    Nothing is sorted by key as it arrives. Only when a record is about to be taken while its key is under way
    it is set aside, to follow when the key is free; so a record is looked at twice at most, and many
    keys share a unit.
    """

    _followers: dict[bytes | None, deque[Message] | None] = field(default_factory=dict)
    """Every key that is under way or free to be followed up, with its records that were set aside."""

    _free: deque[bytes | None] = field(default_factory=deque)
    """Keys no more under way, with records set aside. These are older than whatever is in the queue."""

    _later: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    """Keys whose first record waits in place, ordered by when it is due; with its offset."""

    @property
    def may_start(self) -> bool:
        """See :class:`Lane`."""
        return bool(self._free or self.queue)

    @property
    def due_ms(self) -> int | None:
        """See :class:`Lane`."""
        return self._later[0][0] if self._later else None

    @property
    def blocked(self) -> int:
        """See :class:`Lane`."""
        return sum(len(self._followers[key] or ()) for _, _, key in self._later)

    def add(self, messages: Sequence[Message]) -> None:
        """See :class:`Lane`; what waits in place since before it was fetched may be due before all that is here."""
        self.queue.extend(messages)
        self.waiting += len(messages)
        waits = self.assigned.progress.waiting
        if waits and messages and messages[0].offset() <= max(waits):
            queue, self.queue = self.queue, deque()
            keys: set[bytes | None] = set()
            for message in queue:
                key = message.key()
                if message.offset() in waits and key not in keys:
                    self._meet(message, key, waits)
                else:
                    keys.add(key)
                    self.queue.append(message)

    def take(self, most: int, now_ms: int = 0) -> list[Message]:
        """See :class:`Lane`; empty if all that waits has to wait for its keys."""
        waits = self.assigned.progress.waiting
        taken = self._take_due(waits, now_ms) if waits else []
        if not taken and not (waits and self._crowded(waits)):
            mine: set[bytes | None] = set()
            self._take_free(taken, mine, most, waits)
            self._take_queued(taken, mine, most, waits)
        self.waiting -= len(taken)
        return taken

    def _crowded(self, waits: Mapping[int, InPlace]) -> bool:
        """Whether nothing may begin that could wait in place, too. What was restored has to be met first."""
        return len(waits) + self.under_way >= MOST_IN_PLACE and bool(self._later or self.under_way)

    def _take_due(self, waits: Mapping[int, InPlace], now_ms: int) -> list[Message]:
        """One record that waits in place and is due; the keys of those that are not are free no more."""
        while self._later and self._later[0][0] <= now_ms:
            self._free.append(heappop(self._later)[2])  # who has been due for longer is before it
        for _ in range(len(self._free)):
            key = self._free.popleft()
            waiting = self._followers[key] or deque()
            first = waits.get(waiting[0].offset()) if waiting else None
            if first is None:
                self._free.append(key)
            elif first.due_ms > now_ms:
                heappush(self._later, (first.due_ms, waiting[0].offset(), key))
            else:
                return [waiting.popleft()]
        return []

    def _take_free(
        self, taken: list[Message], mine: set[bytes | None], most: int, waits: Mapping[int, InPlace]
    ) -> None:
        while self._free and len(taken) < most:
            key = self._free.popleft()
            mine.add(key)
            waiting = self._followers[key] or deque()
            while waiting and len(taken) < most and not (waits and waiting[0].offset() in waits):
                taken.append(waiting.popleft())

    def _take_queued(
        self, taken: list[Message], mine: set[bytes | None], most: int, waits: Mapping[int, InPlace]
    ) -> None:
        queue, followers = self.queue, self._followers
        while queue and len(taken) < most:
            message = queue.popleft()
            key = message.key()
            if waits and message.offset() in waits:
                self._meet(message, key, waits)
            elif key in mine and not followers[key]:
                taken.append(message)  # nothing of its key is set aside
            elif key in followers:
                set_aside = followers[key]
                if set_aside is None:
                    followers[key] = set_aside = deque()
                set_aside.append(message)
            else:
                followers[key] = None
                mine.add(key)
                taken.append(message)

    def _meet(self, message: Message, key: bytes | None, waits: Mapping[int, InPlace]) -> None:
        """A record that waits in place since before it was fetched: its key waits with it."""
        if key not in self._followers:
            self._followers[key] = deque((message,))
            heappush(self._later, (waits[message.offset()].due_ms, message.offset(), key))
            return
        set_aside = self._followers[key]
        if set_aside is None:
            self._followers[key] = set_aside = deque()
        set_aside.append(message)

    def take_alone(self) -> Message:
        """See :class:`Lane`."""
        message = self.unnoted.popleft()
        self._followers.setdefault(message.key(), None)
        return message

    def hold(self, message: Message) -> None:
        """See :class:`Lane`; it comes before all others of its key, which is not under way."""
        key = message.key()
        set_aside = self._followers.get(key)
        if set_aside is None:
            self._followers[key] = deque((message,))
            self._free.append(key)
        else:
            set_aside.appendleft(message)
        self.waiting += 1

    def put_back(self, messages: Sequence[Message], position: int) -> None:
        """See :class:`Lane`; their keys are no more under way."""
        self._set_aside(messages[position:])
        self._free_keys(dict.fromkeys(map(_KEYS, messages)))

    def split(self, done: Sequence[Message], current: Message, rest: Sequence[Message]) -> None:
        """See :class:`Lane`; only the key of ``current`` stays under way."""
        self._set_aside(rest)
        keys = dict.fromkeys(map(_KEYS, (*done, *rest)))
        keys.pop(current.key(), None)
        self._free_keys(keys)

    def _set_aside(self, rest: Sequence[Message]) -> None:
        """These come before all others of their keys."""
        followers = self._followers
        for message in reversed(rest):
            key = message.key()
            set_aside = followers[key]
            if set_aside is None:
                followers[key] = set_aside = deque()
            set_aside.appendleft(message)
        self.waiting += len(rest)

    def _free_keys(self, keys: Iterable[bytes | None]) -> None:
        """These are no more under way."""
        for key in keys:
            if self._followers[key]:
                self._free.append(key)
            else:
                del self._followers[key]

    def clear(self) -> list[Message]:
        """See :class:`Lane`."""
        waiting = [message for some in self._followers.values() if some is not None for message in some]
        waiting += self.queue
        waiting += self.unnoted
        self.unnoted.clear()
        self._later.clear()
        self.queue.clear()
        self._followers.clear()
        self._free.clear()
        self.waiting = 0
        return waiting
