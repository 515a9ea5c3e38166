"""What the group's journal tells: what became of which record of ``flights``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final

from transport.protocols import Message

Place = tuple[int, int]
"""Partition and offset of a record of ``flights``."""

_FINAL: Final = ("acked", "recovered", "dead_lettered", "discarded")


class Ledger:
    """What the journal has told so far."""

    def __init__(self) -> None:
        self.ended: dict[Place, str] = {}
        """How each record ended that has: ``acked``, ``recovered``, ``dead_lettered`` or ``discarded``."""

        self.ended_again: list[tuple[Place, str]] = []
        """Ends of records that had ended before. There must be none."""

        self.retried: Counter[Place] = Counter()
        self.delivered = 0
        """How many records have had the outcome of their first delivery."""

        self.counts: Counter[str] = Counter()
        """Records ended, by how; and ``retried``, the number of redeliveries given."""

        self.lateness_ms: list[int] = []
        """For each redelivery how long after it was due it was handed out."""

    def take(self, messages: Iterable[Message]) -> None:
        """Take in what has been written."""
        for message in messages:
            entry = json.loads(message.value() or b"{}")
            partition = entry["partition"]
            self.lateness_ms += entry.get("lateness_ms", ())
            for place in _places(partition, entry.get("retried", ())):
                self.delivered += place not in self.retried
                self.retried[place] += 1
                self.counts["retried"] += 1
            for outcome in _FINAL:
                for place in _places(partition, entry.get(outcome, ())):
                    self._end(place, outcome)

    def _end(self, place: Place, outcome: str) -> None:
        if place in self.ended:
            self.ended_again.append((place, outcome))
            return
        self.delivered += place not in self.retried
        self.ended[place] = outcome
        self.counts[outcome] += 1


def _places(partition: int, ranges: Iterable[tuple[int, int]]) -> list[Place]:
    return [(partition, offset) for first, last in ranges for offset in range(first, last + 1)]
