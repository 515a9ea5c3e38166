"""Collects the outcomes of a write for the journal; :mod:`kafka_redelivery.topology.wire.journal` has the format."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.topology.wire.journal import VERSION
from kafka_redelivery.transport.protocols import ProducerRecord


class Journal:
    """Collects the journal records of one write."""

    def __init__(self, group: str, topic: str, retry_topics: RetryTopics) -> None:
        self._group = group
        self._topic = topic
        self._retry_topics = retry_topics
        self._entries: defaultdict[tuple[str, int], defaultdict[str, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._lateness: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    def note(self, address: str, partition: int, outcome: str, offsets: Iterable[int]) -> None:
        """Add origin offsets that have the same outcome."""
        self._entries[address, partition][outcome].extend(offsets)

    def note_lateness(self, address: str, partition: int, lateness_ms: int) -> None:
        """Add the lateness of a redelivery."""
        self._lateness[address, partition].append(lateness_ms)

    def records(self) -> list[ProducerRecord]:
        """Build the journal records."""
        return [self._record(origin, outcomes) for origin, outcomes in self._entries.items()]

    def _record(self, origin: tuple[str, int], outcomes: dict[str, list[int]]) -> ProducerRecord:
        address, partition = origin
        entry: dict[str, object] = {"v": VERSION, "group": self._group, "topic": address, "partition": partition}
        entry |= {outcome: ranges(offsets) for outcome, offsets in outcomes.items()}
        if origin in self._lateness:
            entry["lateness_ms"] = self._lateness[origin]
        return ProducerRecord(
            self._topic,
            self._retry_topics.partition_for(self._topic, partition),
            f"{address}-{partition}".encode(),
            json.dumps(entry, separators=(",", ":")).encode(),
        )


def ranges(offsets: Iterable[int]) -> list[list[int]]:
    """Return inclusive ranges of consecutive offsets, in ascending order."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found
