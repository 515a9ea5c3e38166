"""The memory of a dead-letter strategy: a duplicate is not dead-lettered twice.

Keyed by producer and sequence number. On Kafka the producer is the group with the source partition and
the sequence number is the origin's offset.

Source: ``ActiveMQMessageAuditNoSync`` and ``BitArrayBin``. How far back it remembers is not literally
``maxAuditDepth``: a window of whole blocks of 64 numbers moves on when a higher number comes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

_BLOCK = 64
_MOST_DESTINATIONS = 10_000


@dataclass(slots=True)
class _Window:
    """The numbers of one producer that were seen, as bits from ``first`` on."""

    blocks: int
    first: int = -1
    bits: int = 0

    def put(self, number: int, *, seen: bool) -> bool:
        """Note a number as seen or not; answers whether it was before. Too old ones are never known."""
        if self.first < 0:
            self.first = number - number % _BLOCK
        place = number - self.first
        if place < 0:
            return False
        beyond = place // _BLOCK - self.blocks + 1
        if beyond > 0:
            self.first += beyond * _BLOCK
            self.bits >>= beyond * _BLOCK
            place -= beyond * _BLOCK
        before = bool(self.bits >> place & 1)
        self.bits = self.bits | 1 << place if seen else self.bits & ~(1 << place)
        return before


@dataclass(slots=True)
class DuplicateAudit:
    """What one audit remembers: the ``producers`` used last, for each a window of about ``depth`` numbers."""

    depth: int = 2048
    producers: int = 64
    _windows: OrderedDict[str, _Window] = field(default_factory=OrderedDict)

    def is_duplicate(self, producer: str, number: int) -> bool:
        """Note a message; whether it was noted before."""
        window = self._windows.pop(producer, None)
        if window is None:
            window = _Window(max((self.depth + 1) // _BLOCK + 1, 1))
        self._windows[producer] = window
        while len(self._windows) > self.producers:
            self._windows.popitem(last=False)
        return window.put(number, seen=True)

    def drop(self, producer: str) -> None:
        """Remember nothing of a producer."""
        self._windows.pop(producer, None)

    def forget(self, producer: str, number: int) -> None:
        """Take a note back, after a dead letter could not be written."""
        window = self._windows.get(producer)
        if window is not None:
            self._windows.move_to_end(producer)
            window.put(number, seen=False)


@dataclass(slots=True)
class StrategyAudit:
    """The audit of a strategy: one for all destinations if it is shared, else one for each."""

    shared: bool
    depth: int = 2048
    producers: int = 64
    _audits: OrderedDict[str, DuplicateAudit] = field(default_factory=OrderedDict)

    def of(self, destination: str) -> DuplicateAudit:
        """The audit that answers for a destination."""
        key = "" if self.shared else destination
        audit = self._audits.pop(key, None)
        if audit is None:
            audit = DuplicateAudit(self.depth, self.producers)
        self._audits[key] = audit
        while len(self._audits) > _MOST_DESTINATIONS:
            self._audits.popitem(last=False)
        return audit
