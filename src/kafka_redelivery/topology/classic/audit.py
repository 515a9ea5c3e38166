"""The audit of a dead-letter strategy, which keeps a record from being dead-lettered twice.

It remembers messages by producer and sequence number. On Kafka, the producer is the consumer group with the source
partition, and the sequence number is the source offset. A source topic that is deleted and created again has other
records with these numbers; so a number also has a mark, which distinguishes them.

Source: ``ActiveMQMessageAuditNoSync`` and ``BitArrayBin``. They do not remember exactly ``maxAuditDepth`` numbers, but
a window of whole blocks of 64, which moves on when a higher number comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_BLOCK = 64
_MAX_DESTINATIONS = 10_000


@dataclass(slots=True)
class _Window:
    """The sequence numbers of one producer that were seen, as bits from ``first`` on."""

    blocks: int
    first: int = -1
    bits: int = 0
    marks: dict[int, int] = field(default_factory=dict)
    """Of the numbers that were seen, if it is not 0."""

    def put(self, number: int, mark: int = 0, *, seen: bool) -> bool:
        """Set whether a number was seen; return whether it was before, with this mark.

        Numbers below the window count as not seen.
        """
        if self.first < 0:
            self.first = number - number % _BLOCK
        index = number - self.first
        if index < 0:
            return False
        beyond = index // _BLOCK - self.blocks + 1
        if beyond > 0:
            self.first += beyond * _BLOCK
            self.bits >>= beyond * _BLOCK
            index -= beyond * _BLOCK
            self.marks = {each: its for each, its in self.marks.items() if each >= self.first}
        before = bool(self.bits >> index & 1) and self.marks.pop(number, 0) == mark
        self.bits = self.bits | 1 << index if seen else self.bits & ~(1 << index)
        if seen and mark:
            self.marks[number] = mark
        return before


@dataclass(slots=True)
class DuplicateAudit:
    """Remembers a window of about ``depth`` numbers for each of the ``producers`` that were used last."""

    depth: int = 2048
    producers: int = 64
    _windows: OrderedDict[str, _Window] = field(default_factory=OrderedDict)

    def is_duplicate(self, producer: str, number: int, mark: int = 0) -> bool:
        """Remember a message; return whether it was remembered before, with this mark."""
        window = self._windows.pop(producer, None)
        if window is None:
            window = _Window(max((self.depth + 1) // _BLOCK + 1, 1))
        self._windows[producer] = window
        while len(self._windows) > self.producers:
            self._windows.popitem(last=False)
        return window.put(number, mark, seen=True)

    def drop(self, matches: Callable[[str], bool]) -> None:
        """Forget all messages of the producers whose name matches."""
        for producer in list(filter(matches, self._windows)):
            del self._windows[producer]

    def withdraw(self, producer: str, number: int) -> None:
        """Forget a message again, because its dead letter could not be written."""
        window = self._windows.get(producer)
        if window is not None:
            self._windows.move_to_end(producer)
            window.put(number, seen=False)


@dataclass(slots=True)
class StrategyAudit:
    """The audits of a strategy: one for all destinations if it is shared, else one for each."""

    shared: bool
    depth: int = 2048
    producers: int = 64
    _audits: OrderedDict[str, DuplicateAudit] = field(default_factory=OrderedDict)

    def of(self, destination: str) -> DuplicateAudit:
        """Return the audit of a destination."""
        key = "" if self.shared else destination
        audit = self._audits.pop(key, None)
        if audit is None:
            audit = DuplicateAudit(self.depth, self.producers)
        self._audits[key] = audit
        while len(self._audits) > _MAX_DESTINATIONS:
            self._audits.popitem(last=False)
        return audit
