"""Memory that the handler's process shares with its parent: which record it is at."""

from __future__ import annotations

import mmap
import struct
from typing import Final

from consumers.clock import monotonic_s

_STANDING: Final = struct.Struct("=qqd")
STANDING_BYTES: Final = _STANDING.size
_NOWHERE: Final = -1


class Standing:
    """Where the child is: the records ``first`` and following, begun at a time. One writes, one reads."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    def at(self, first: int, count: int = 1) -> None:
        """These are being handled from now on."""
        _STANDING.pack_into(self._memory, 0, first, count, monotonic_s())

    def nowhere(self) -> None:
        """Nothing is being handled."""
        _STANDING.pack_into(self._memory, 0, _NOWHERE, 0, 0.0)

    def read(self) -> tuple[int, int, float] | None:
        """Which record is being handled, how many with it, and since when (monotonic); ``None`` = nothing is."""
        found = _STANDING.unpack_from(self._memory, 0)
        while True:  # it is written while it is read: two equal readings are a whole one
            again = _STANDING.unpack_from(self._memory, 0)
            if again == found:
                return None if found[0] == _NOWHERE else (int(found[0]), int(found[1]), float(found[2]))
            found = again
