"""The journal: what became of which origin offsets, written in the transaction that did it.

One record for each origin partition and write; its key is ``topic-partition``, its value a JSON object:
``v`` (1), ``group``, ``topic``, ``partition``, an outcome -> list of inclusive [first, last] ranges of
*origin* offsets, and ``lateness_ms``, how late each redelivery of this write was handed out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from consumers.routes import Waiting
from transport.protocols import Copy

VERSION = 1
OUTCOMES = ("acked", "recovered", "retried", "dead_lettered", "discarded")


class Journal:
    """Collects what one write does."""

    def __init__(self, group: str, topic: str, waiting: Waiting) -> None:
        self._group = group
        self._topic = topic
        self._waiting = waiting
        self._entries: defaultdict[tuple[str, int], defaultdict[str, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._lateness: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    def note(self, address: str, partition: int, outcome: str, offsets: Iterable[int]) -> None:
        """Origin offsets that ended a delivery alike."""
        self._entries[address, partition][outcome].extend(offsets)

    def late(self, address: str, partition: int, lateness_ms: int) -> None:
        """How late a redelivery was."""
        self._lateness[address, partition].append(lateness_ms)

    def copies(self) -> list[Copy]:
        """The records to be written."""
        return [self._copy(place, outcomes) for place, outcomes in self._entries.items()]

    def _copy(self, place: tuple[str, int], outcomes: dict[str, list[int]]) -> Copy:
        address, partition = place
        entry: dict[str, object] = {"v": VERSION, "group": self._group, "topic": address, "partition": partition}
        entry |= {outcome: ranges(offsets) for outcome, offsets in outcomes.items()}
        if place in self._lateness:
            entry["lateness_ms"] = self._lateness[place]
        return Copy(
            self._topic,
            self._waiting.partition(self._topic, partition),
            f"{address}-{partition}".encode(),
            json.dumps(entry, separators=(",", ":")).encode(),
        )


def ranges(offsets: Iterable[int]) -> list[list[int]]:
    """Inclusive ranges of consecutive offsets, ascending."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found
