"""The records of one partition that wait for a slot, and which of them may be handled beside each other.

A record that waits in place for its next delivery (see :meth:`topology.progress.Progress.wait`) keeps its place here:
until it is due nothing behind it is taken, by key nothing of its key. It is taken alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consumers.unit import Assigned
from topology.progress import InPlace
from transport.protocols import Message


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

    unnoted: deque[Message] = field(default_factory=deque)
    """What may not be taken before a commit has noted it; behind everything else."""

    listed: bool = False
    """Whether it stands in the line for a slot."""

    asleep_until_ms: int | None = None
    """When it is looked at again because something that waits in place is due (epoch ms)."""

    closed: bool = False
    """Its partition is given back: nothing more is begun."""

    @property
    def may_start(self) -> bool:
        """Whether it is worth asking for a unit."""
        return bool(self.waiting) and not (self.exclusive and self.under_way)

    @property
    def blocked(self) -> int:
        """How many of those that wait have to wait for one that is not due, while others need not."""
        return 0

    def add(self, messages: Sequence[Message]) -> None:
        """Queue records behind those that wait."""
        self.queue.extend(messages)
        self.waiting += len(messages)

    @property
    def due_ms(self) -> int | None:
        """When the first that waits in place is due (epoch ms); ``None`` if nothing has to wait for one."""
        waits = self.assigned.progress.waiting
        first = waits.get(self.queue[0].offset()) if waits and self.queue else None
        return None if first is None else first.due_ms

    def take(self, most: int, now_ms: int = 0) -> list[Message]:
        """Remove the next records that may be handled one after the other in a slot.

        Args:
            most: at most so many.
            now_ms: epoch ms; what waits in place is not taken before it is due.
        """
        queue = self.queue
        if self.assigned.progress.waiting:
            taken = self._take_around(self.assigned.progress.waiting, most, now_ms)
        elif most >= len(queue):
            taken = list(queue)
            queue.clear()
        else:
            taken = [queue.popleft() for _ in range(most)]
        self.waiting -= len(taken)
        return taken

    def _take_around(self, waits: Mapping[int, InPlace], most: int, now_ms: int) -> list[Message]:
        queue = self.queue
        taken: list[Message] = []
        while queue and len(taken) < most:
            first = waits.get(queue[0].offset())
            if first is None:
                taken.append(queue.popleft())
                continue
            if not taken and first.due_ms <= now_ms:
                taken.append(queue.popleft())
            break
        return taken

    def take_alone(self) -> Message:
        """Remove the first record that is not noted yet, to be handled while nothing else is."""
        return self.unnoted.popleft()

    def hold(self, message: Message) -> None:
        """Queue what was taken again, before all others, for it waits in place."""
        self.queue.appendleft(message)
        self.waiting += 1

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
        """Remove and return everything that waits, and last what is not noted."""
        waiting = [*self.queue, *self.unnoted]
        self.queue.clear()
        self.unnoted.clear()
        self.waiting = 0
        return waiting
