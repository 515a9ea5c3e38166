"""The journal records of one write; :mod:`kafka_redelivery.topology.wire.journal` has their format."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.writes.outcomes import Outcomes, outcome_name
from kafka_redelivery.topology.wire.journal import VERSION
from kafka_redelivery.transport.protocols import ProducerRecord

_Origin: TypeAlias = tuple[str, int, str]
"""Source topic, partition, and the mark of that topic."""


class Journal:
    """Collects the journal records of one write."""

    def __init__(self, group: str, topic: str, retry_topics: RetryTopics) -> None:
        self._group = group
        self._topic = topic
        self._retry_topics = retry_topics
        self._entries: defaultdict[_Origin, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._lateness: defaultdict[_Origin, list[int]] = defaultdict(list)

    def add(self, outcomes: Outcomes) -> None:
        """Add the origin offsets of outcomes, and the lateness of the redeliveries among their records."""
        partition = outcomes.assigned.partition
        mark = "" if outcomes.redelivered else outcomes.assigned.mark
        for each in outcomes.decided.values():
            outcome = outcome_name(each.decision)
            if outcome is not None:
                self.note(each.lineage.address, each.lineage.partition, outcome, (each.lineage.offset,), mark)
        if not outcomes.redelivered:
            unsuccessful = outcomes.unsuccessful()
            acked = [offset for index, offset in enumerate(outcomes.offsets()) if index not in unsuccessful]
            if acked:
                self.note(partition.topic, partition.number, "acked", acked, mark)
            return
        for index, late_ms in outcomes.lateness:
            lineage = outcomes.lineages[index]
            self.note_lateness(lineage.address, lineage.partition, late_ms)
        for lineage in outcomes.succeeded():
            self.note(lineage.address, lineage.partition, outcomes.success, (lineage.offset,))

    def note(self, address: str, partition: int, outcome: str, offsets: Iterable[int], mark: str = "") -> None:
        """Add origin offsets that have the same outcome.

        Args:
            address: the source topic.
            partition: the number of its partition.
            outcome: one of :data:`~kafka_redelivery.topology.wire.journal.OUTCOMES`.
            offsets: the offsets.
            mark: the mark of the source topic that the records were read from; empty if they were redelivered, because
                they may come from an older topic of that name.
        """
        self._entries[address, partition, mark][outcome].extend(offsets)

    def note_lateness(self, address: str, partition: int, lateness_ms: int) -> None:
        """Add the lateness of a redelivery."""
        self._lateness[address, partition, ""].append(lateness_ms)

    def records(self) -> list[ProducerRecord]:
        """Build the journal records."""
        return [self._record(origin, outcomes) for origin, outcomes in self._entries.items()]

    def _record(self, origin: _Origin, outcomes: dict[str, list[int]]) -> ProducerRecord:
        address, partition, mark = origin
        entry: dict[str, object] = {"v": VERSION, "group": self._group, "topic": address, "partition": partition}
        if mark:
            entry["mark"] = mark
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
