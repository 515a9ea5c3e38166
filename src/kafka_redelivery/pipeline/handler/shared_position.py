"""The record that the child is handling, in memory that it shares with its parent."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from kafka_redelivery.consumers.clock import monotonic_s

_T = TypeVar("_T")

_POSITION: Final = struct.Struct("=qqd")
"""First record, number of records, monotonic start time."""

_VALID_SLOT: Final = 2 * _POSITION.size
"""Index of the byte that says which of the two slots is valid."""

SHARED_BYTES: Final = _VALID_SLOT + 1
_NONE: Final = -1

NO_CALL: Final = float("inf")


class SharedPosition:
    """The records that the child is handling, and since when. The child writes, the parent reads.

    The child writes into the slot that is not valid and then makes it valid with one byte. If it is suspended or killed
    in the middle of a write, the parent still reads the whole position before it.
    """

    def __init__(self, memory: mmap.mmap | bytearray, number: int = 0) -> None:
        """Use a part of the memory: number 0 has the first :data:`SHARED_BYTES`, number 1 those behind them."""
        self._memory = memory
        self._start = number * SHARED_BYTES
        self._valid = self._start + _VALID_SLOT

    def set(self, first: int, count: int = 1) -> None:
        """Publish that the child starts to handle ``count`` records from index ``first`` on.

        With slots, a position has one record instead: ``first`` is its offset, ``count`` the number of its partition.
        """
        self._write(first, count, monotonic_s())

    def prepare(self, first: int, count: int) -> None:
        """Publish the records as :meth:`set` does, but no call that has a deadline: something outside may be slow."""
        self._write(first, count, NO_CALL)

    def call(self, grace_s: float = 0.0) -> None:
        """Publish that the handler is called for the records now; the published start is ``grace_s`` later."""
        self._start_at(monotonic_s() + grace_s)

    def end_call(self) -> None:
        """Publish that the call has ended. What follows, such as encoding the output, has no deadline."""
        self._start_at(NO_CALL)

    def _start_at(self, since_s: float) -> None:
        _, first, count, _ = self._read_valid()
        if first != _NONE:
            self._write(first, count, since_s)

    def publishing(self, records: Iterable[_T], first: int, *, prepared: bool = True) -> Iterator[_T]:
        """Yield records; before each, publish that it is handled. They count from index ``first`` on.

        Does the same as :meth:`set`, or as :meth:`prepare` if they are not ``prepared``, without calls: this runs for
        every record.
        """
        memory, valid, pack = self._memory, self._valid, _POSITION.pack_into
        slots = self._start, self._start + _POSITION.size
        for index, record in enumerate(records, first):
            slot = 1 - memory[valid]
            pack(memory, slots[slot], index, 1, monotonic_s() if prepared else NO_CALL)
            memory[valid] = slot
            yield record

    def clear(self) -> None:
        """Publish that no record is being handled."""
        self._write(_NONE, 0, 0.0)

    def read(self) -> tuple[int, int, float] | None:
        """Return first record, number of records and monotonic start time; ``None`` = no record is being handled.

        The start time is :data:`NO_CALL` while the records are prepared or their outputs are encoded.
        """
        found = self._read_valid()
        while True:  # the child may write both slots during one read: two equal reads are a whole position
            again = self._read_valid()
            if again == found:
                _, first, count, since_s = found
                return None if first == _NONE else (first, count, since_s)
            found = again

    def _write(self, first: int, count: int, since_s: float) -> None:
        slot = 1 - self._memory[self._valid]
        _POSITION.pack_into(self._memory, self._start + slot * _POSITION.size, first, count, since_s)
        self._memory[self._valid] = slot

    def _read_valid(self) -> tuple[int, int, int, float]:
        slot = self._memory[self._valid]
        first, count, since_s = _POSITION.unpack_from(self._memory, self._start + slot * _POSITION.size)
        return slot, int(first), int(count), float(since_s)
