"""The lane for ordering by key, where records with different keys may be handled concurrently."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import methodcaller

from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.transport.protocols import Message

MAX_IN_PLACE = 48
"""Maximum number of records of a partition that wait in place; the commit metadata has to list them.

At the limit, no further record of the partition is started.
"""

_KEYS = methodcaller("key")


@dataclass(slots=True, eq=False)
class KeyedLane(Lane):
    """A lane in which each key is in one work item at a time and keeps the order of its records.

    Records are not grouped by key when they arrive. A record is set aside only when it is about to be taken while its
    key is in flight; it is taken when the key is free again. So each record is examined at most twice, and a work item
    contains many keys.
    """

    one_per_key: bool = False
    """Whether a work item has at most one record of a key: each of its records may have to block those of its key."""

    _set_aside: dict[bytes | None, deque[Message] | None] = field(default_factory=dict)
    """Records set aside, by key. Each key that is in flight, free or waiting has an entry; ``None`` = no records."""

    _free: deque[bytes | None] = field(default_factory=deque)
    """Keys that are not in flight and have records set aside. These records are older than those in the queue."""

    _waiting_keys: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    """Heap of the keys whose first record waits in place: due time (epoch ms) and offset of that record, key."""

    @property
    def may_start(self) -> bool:
        """See :class:`Lane`."""
        return bool(self._free or self.queue)

    @property
    def due_ms(self) -> int | None:
        """See :class:`Lane`."""
        return self._waiting_keys[0][0] if self._waiting_keys else None

    @property
    def blocked(self) -> int:
        """See :class:`Lane`."""
        return sum(len(self._set_aside[key] or ()) for _, _, key in self._waiting_keys)

    def clock_set_back(self, difference_ms: int) -> None:
        """See :class:`Lane`."""
        super(KeyedLane, self).clock_set_back(difference_ms)
        waits = self.assigned.progress.waiting
        self._waiting_keys = [(waits[offset].due_ms, offset, key) for _, offset, key in self._waiting_keys]
        heapify(self._waiting_keys)

    def add(self, messages: Sequence[Message]) -> None:
        """Append records; those that waited in place before this worker fetched them may be due before all others."""
        self.queue.extend(messages)
        self.waiting += len(messages)
        waits = self.assigned.progress.waiting
        if waits and messages and messages[0].offset() <= max(waits):
            queue, self.queue = self.queue, deque()
            keys: set[bytes | None] = set()
            for message in queue:
                key = message.key()
                if message.offset() in waits and key not in keys:
                    self._add_waiting(message, key, waits)
                else:
                    keys.add(key)
                    self.queue.append(message)

    def take(self, max_records: int, now_ms: int = 0) -> list[Message]:
        """Remove the next records; empty if the keys of all of them are in flight or waiting. See :class:`Lane`."""
        waits = self.assigned.progress.waiting
        taken = self._take_due(waits, now_ms) if waits else []
        if not taken and not ((waits or self.assigned.route.blocking) and self._at_limit(waits)):
            if self.one_per_key:
                max_records = min(max_records, max(1, MAX_IN_PLACE - len(waits) - self._keys_in_flight))
            item_keys: set[bytes | None] = set()
            self._take_free(taken, item_keys, max_records, waits)
            self._take_queued(taken, item_keys, max_records, waits)
        self.waiting -= len(taken)
        return taken

    def _at_limit(self, waits: Mapping[int, WaitingRecord]) -> bool:
        """Whether starting another record could exceed :data:`MAX_IN_PLACE`.

        False while no waiting record has been fetched yet: those that a predecessor left have to be fetched first.
        """
        in_flight = self._keys_in_flight if self.one_per_key else self.in_flight
        return len(waits) + in_flight >= MAX_IN_PLACE and bool(self._waiting_keys or self.in_flight)

    @property
    def _keys_in_flight(self) -> int:
        return len(self._set_aside) - len(self._free) - len(self._waiting_keys)

    def _take_due(self, waits: Mapping[int, WaitingRecord], now_ms: int) -> list[Message]:
        """Take one record that waits in place and is due. Move the free keys whose record is not due to the heap."""
        while self._waiting_keys and self._waiting_keys[0][0] <= now_ms:
            self._free.append(heappop(self._waiting_keys)[2])  # behind the keys that have been due for longer
        for _ in range(len(self._free)):
            key = self._free.popleft()
            records = self._set_aside[key] or deque()
            first = waits.get(records[0].offset()) if records else None
            if first is None:
                self._free.append(key)
            elif first.due_ms > now_ms:
                heappush(self._waiting_keys, (first.due_ms, records[0].offset(), key))
            else:
                return [records.popleft()]
        return []

    def _take_free(
        self, taken: list[Message], item_keys: set[bytes | None], max_records: int, waits: Mapping[int, WaitingRecord]
    ) -> None:
        while self._free and len(taken) < max_records:
            key = self._free.popleft()
            item_keys.add(key)
            records = self._set_aside[key] or deque()
            end = len(taken) + 1 if self.one_per_key else max_records
            while records and len(taken) < end and not (waits and records[0].offset() in waits):
                taken.append(records.popleft())

    def _take_queued(
        self, taken: list[Message], item_keys: set[bytes | None], max_records: int, waits: Mapping[int, WaitingRecord]
    ) -> None:
        queue, set_aside = self.queue, self._set_aside
        while queue and len(taken) < max_records:
            message = queue.popleft()
            key = message.key()
            if waits and message.offset() in waits:
                self._add_waiting(message, key, waits)
            elif key in item_keys and not set_aside[key] and not self.one_per_key:
                taken.append(message)
            elif key in set_aside:
                records = set_aside[key]
                if records is None:
                    set_aside[key] = records = deque()
                records.append(message)
            else:
                set_aside[key] = None
                item_keys.add(key)
                taken.append(message)

    def _add_waiting(self, message: Message, key: bytes | None, waits: Mapping[int, WaitingRecord]) -> None:
        """Set a record aside that waited in place before this worker fetched it. Its key waits with it."""
        if key not in self._set_aside:
            self._set_aside[key] = deque((message,))
            heappush(self._waiting_keys, (waits[message.offset()].due_ms, message.offset(), key))
            return
        records = self._set_aside[key]
        if records is None:
            self._set_aside[key] = records = deque()
        records.append(message)

    def take_unpersisted(self) -> Message:
        """See :class:`Lane`."""
        message = self.unpersisted.popleft()
        self._set_aside.setdefault(message.key(), None)
        return message

    def requeue(self, message: Message) -> None:
        """Put a record that now waits in place before all others of its key, which is not in flight."""
        key = message.key()
        records = self._set_aside.get(key)
        if records is None:
            self._set_aside[key] = deque((message,))
            self._free.append(key)
        else:
            records.appendleft(message)
        self.waiting += 1

    def put_back(self, messages: Sequence[Message], position: int) -> None:
        """Put records back and release the keys of the work item. See :class:`Lane`."""
        self._set_aside_first(messages[position:])
        self._release_keys(dict.fromkeys(map(_KEYS, messages)))

    def split(self, done: Sequence[Message], current: Message, rest: Sequence[Message]) -> None:
        """Put ``rest`` back and release all keys except for that of ``current``. See :class:`Lane`."""
        self._set_aside_first(rest)
        keys = dict.fromkeys(map(_KEYS, (*done, *rest)))
        keys.pop(current.key(), None)
        self._release_keys(keys)

    def _set_aside_first(self, messages: Sequence[Message]) -> None:
        set_aside = self._set_aside
        for message in reversed(messages):
            key = message.key()
            records = set_aside[key]
            if records is None:
                set_aside[key] = records = deque()
            records.appendleft(message)
        self.waiting += len(messages)

    def _release_keys(self, keys: Iterable[bytes | None]) -> None:
        for key in keys:
            if self._set_aside[key]:
                self._free.append(key)
            else:
                del self._set_aside[key]

    def clear(self) -> list[Message]:
        """See :class:`Lane`."""
        removed = [message for records in self._set_aside.values() if records is not None for message in records]
        removed += self.queue
        removed += self.unpersisted
        self.unpersisted.clear()
        self._waiting_keys.clear()
        self.queue.clear()
        self._set_aside.clear()
        self._free.clear()
        self.waiting = 0
        return removed
