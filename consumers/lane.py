"""The records of one partition that wait for a slot, and which of them may be handled beside each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller

from consumers.unit import Assigned
from transport.protocols import Message

_KEYS = methodcaller("key")


def size_of(messages: Sequence[Message]) -> int:
    """Bytes of their values and keys. Headers are not counted: to ask for them would parse them."""
    if not messages:
        return 0
    key = type(messages[0]).key  # not looked up for each: this is done for every record
    return sum(map(len, messages)) + sum(map(len, filter(None, map(key, messages))))


@dataclass(slots=True)
class Held:
    """Records that wait for a slot or are under way."""

    records: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Lane:
    """Waiting records in the order of their offsets. Owned by the polling thread."""

    assigned: Assigned
    exclusive: bool
    """Whether one unit at a time is under way."""

    queue: deque[Message] = field(default_factory=deque)
    under_way: int = 0
    waiting: int = 0
    """How many records wait."""

    held: Held = field(default_factory=Held)

    listed: bool = False
    """Whether it stands in the line for a slot."""

    closed: bool = False
    """Its partition is given back: nothing more is begun."""

    @property
    def may_start(self) -> bool:
        """Whether it is worth asking for a unit."""
        return bool(self.waiting) and not (self.exclusive and self.under_way)

    def add(self, messages: Sequence[Message]) -> None:
        """Queue records behind those that wait."""
        self.queue.extend(messages)
        self.waiting += len(messages)

    def take(self, most: int) -> list[Message]:
        """Remove the next records that may be handled one after the other in a slot; at most so many."""
        queue = self.queue
        if most >= len(queue):
            taken = list(queue)
            queue.clear()
        else:
            taken = [queue.popleft() for _ in range(most)]
        self.waiting -= len(taken)
        return taken

    def put_back(self, messages: Sequence[Message], position: int) -> None:
        """What was taken is handled as far as ``position``; the rest waits again, before all others."""
        rest = messages[position:]
        self.queue.extendleft(reversed(rest))
        self.waiting += len(rest)

    def split(self, done: Sequence[Message], current: Message, rest: Sequence[Message]) -> None:
        """Of what was taken only ``current`` stays under way; what is ``done`` is over, and ``rest`` waits again."""
        del done, current
        self.put_back(rest, 0)

    def clear(self) -> list[Message]:
        """Remove and return everything that waits."""
        waiting = list(self.queue)
        self.queue.clear()
        self.waiting = 0
        return waiting


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

    @property
    def may_start(self) -> bool:
        """See :class:`Lane`."""
        return bool(self._free or self.queue)

    def take(self, most: int) -> list[Message]:
        """See :class:`Lane`; empty if all that waits has to wait for its keys."""
        taken: list[Message] = []
        mine = set()
        followers = self._followers
        while self._free and len(taken) < most:
            key = self._free.popleft()
            mine.add(key)
            waiting = followers[key] or deque()
            taken += [waiting.popleft() for _ in range(min(len(waiting), most - len(taken)))]
        queue = self.queue
        while queue and len(taken) < most:
            message = queue.popleft()
            key = message.key()
            if key in mine:
                taken.append(message)  # nothing of its key is set aside: that was taken just before
            elif key in followers:
                set_aside = followers[key]
                if set_aside is None:
                    followers[key] = set_aside = deque()
                set_aside.append(message)
            else:
                followers[key] = None
                mine.add(key)
                taken.append(message)
        self.waiting -= len(taken)
        return taken

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
        self.queue.clear()
        self._followers.clear()
        self._free.clear()
        self.waiting = 0
        return waiting
