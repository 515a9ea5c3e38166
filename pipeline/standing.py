"""Memory that the handler's process shares with its parent: which record it is at."""

from __future__ import annotations

import mmap
import struct
from typing import Final

from consumers.clock import monotonic_s

_STANDING: Final = struct.Struct("=qqd")
_TURN: Final = 2 * _STANDING.size
"""Where the byte is that says which of the two places is valid."""

STANDING_BYTES: Final = _TURN + 1
_NOWHERE: Final = -1


class Standing:
    """Where the child is: the records ``first`` and following, begun at a time. One writes, one reads.

    It is written where nobody reads, and becomes valid by one byte. Else a child that is put to sleep, or killed, while
    it writes would seem to be at a record that it is not at, since whenever.
    """

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory

    def at(self, first: int, count: int = 1) -> None:
        """These are being handled from now on."""
        self._write(first, count, monotonic_s())

    def nowhere(self) -> None:
        """Nothing is being handled."""
        self._write(_NOWHERE, 0, 0.0)

    def read(self) -> tuple[int, int, float] | None:
        """Which record is being handled, how many with it, and since when (monotonic); ``None`` = nothing is."""
        found = self._valid()
        while True:  # both may have been written while one was read: two equal readings are a whole one
            again = self._valid()
            if again == found:
                _, first, count, since_s = found
                return None if first == _NOWHERE else (first, count, since_s)
            found = again

    def _write(self, first: int, count: int, since_s: float) -> None:
        turn = 1 - self._memory[_TURN]
        _STANDING.pack_into(self._memory, turn * _STANDING.size, first, count, since_s)
        self._memory[_TURN] = turn

    def _valid(self) -> tuple[int, int, int, float]:
        turn = self._memory[_TURN]
        first, count, since_s = _STANDING.unpack_from(self._memory, turn * _STANDING.size)
        return turn, int(first), int(count), float(since_s)
