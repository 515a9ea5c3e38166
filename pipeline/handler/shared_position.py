"""The record that the child is handling, in memory that it shares with its parent."""

from __future__ import annotations

import mmap
import struct
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s

_POSITION: Final = struct.Struct("=qqd")
"""First record, number of records, monotonic start time."""

_VALID_SLOT: Final = 2 * _POSITION.size
"""Index of the byte that says which of the two slots is valid."""

SHARED_BYTES: Final = _VALID_SLOT + 1
_NONE: Final = -1


class SharedPosition:
    """The records that the child is handling, and since when. The child writes, the parent reads.

    The child writes into the slot that is not valid and then makes it valid with one byte. If it is suspended or killed
    in the middle of a write, the parent still reads the whole position before it.
    """

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory

    def set(self, first: int, count: int = 1) -> None:
        """Publish that the child starts to handle ``count`` records from index ``first`` on."""
        self._write(first, count, monotonic_s())

    def clear(self) -> None:
        """Publish that no record is being handled."""
        self._write(_NONE, 0, 0.0)

    def read(self) -> tuple[int, int, float] | None:
        """Return first record, number of records and monotonic start time; ``None`` = no record is being handled."""
        found = self._read_valid()
        while True:  # the child may write both slots during one read: two equal reads are a whole position
            again = self._read_valid()
            if again == found:
                _, first, count, since_s = found
                return None if first == _NONE else (first, count, since_s)
            found = again

    def _write(self, first: int, count: int, since_s: float) -> None:
        slot = 1 - self._memory[_VALID_SLOT]
        _POSITION.pack_into(self._memory, slot * _POSITION.size, first, count, since_s)
        self._memory[_VALID_SLOT] = slot

    def _read_valid(self) -> tuple[int, int, int, float]:
        slot = self._memory[_VALID_SLOT]
        first, count, since_s = _POSITION.unpack_from(self._memory, slot * _POSITION.size)
        return slot, int(first), int(count), float(since_s)
