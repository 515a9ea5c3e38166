"""Outcomes of the records of ``flights``, from the group's journal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final

from kafka_redelivery.transport.protocols import Message

Position = tuple[int, int]
"""Partition and offset of a record of ``flights``."""

_FINAL: Final = ("acked", "recovered", "dead_lettered", "discarded")


class Ledger:
    """Outcomes read so far."""

    def __init__(self) -> None:
        self.ended: dict[Position, str] = {}
        """Outcome of each finished record: ``acked``, ``recovered``, ``dead_lettered`` or ``discarded``."""

        self.ended_again: dict[Position, list[str]] = {}
        """Further outcomes of finished records. Only a record whose dead letter was sent again may have one."""

        self.retried: Counter[Position] = Counter()
        self.delivered = 0
        """Number of records whose first delivery has ended."""

        self.counts: Counter[str] = Counter()
        """Finished records by outcome, and ``retried``, the number of redeliveries."""

        self.counts_again: Counter[str] = Counter()
        """Further outcomes."""

        self.lateness_ms: list[int] = []
        """Lateness of each redelivery: from its due time until it was handed out."""

    def take(self, messages: Iterable[Message]) -> None:
        """Add journal records."""
        for message in messages:
            entry = json.loads(message.value() or b"{}")
            partition = entry["partition"]
            self.lateness_ms += entry.get("lateness_ms", ())
            for position in _positions(partition, entry.get("retried", ())):
                self.delivered += position not in self.retried
                self.retried[position] += 1
                self.counts["retried"] += 1
            for outcome in _FINAL:
                for position in _positions(partition, entry.get(outcome, ())):
                    self._end(position, outcome)

    def _end(self, position: Position, outcome: str) -> None:
        if position in self.ended:
            self.ended_again.setdefault(position, []).append(outcome)
            self.counts_again[outcome] += 1
            return
        self.delivered += position not in self.retried
        self.ended[position] = outcome
        self.counts[outcome] += 1


def _positions(partition: int, ranges: Iterable[tuple[int, int]]) -> list[Position]:
    return [(partition, offset) for first, last in ranges for offset in range(first, last + 1)]
